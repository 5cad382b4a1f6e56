#include "zero/torch/gradient_hook.h"

#include "zero/torch/attached_module.h"

namespace zero {

torch::autograd::variable_list GradientHook::operator()(const torch::autograd::variable_list& outputs, const torch::autograd::variable_list&) {
  module_.take_gradient(param_);
  return outputs;
}

}  // namespace zero
