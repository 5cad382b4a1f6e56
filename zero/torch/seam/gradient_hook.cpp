#include "zero/torch/seam/gradient_hook.h"

#include "zero/base/process/host_language.h"

namespace zero {

torch::autograd::variable_list GradientHook::operator()(const torch::autograd::variable_list& outputs,
                                                        const torch::autograd::variable_list&) {
  with_host_errors([&] { owner_.take_gradient(param_); });
  return outputs;
}

}  // namespace zero
