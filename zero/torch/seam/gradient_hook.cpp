#include "zero/torch/seam/gradient_hook.h"

namespace zero {

torch::autograd::variable_list GradientHook::operator()(const torch::autograd::variable_list& outputs,
                                                        const torch::autograd::variable_list&) {
  owner_.take_gradient(param_);
  return outputs;
}

}  // namespace zero
