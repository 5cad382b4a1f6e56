#include "zero/torch/activations/saved_input.h"

#include <utility>

#include <torch/csrc/autograd/variable.h>

namespace zero {

at::Tensor leaf_of(const at::Tensor& input, bool requires_grad) {
  return input.defined() ? input.detach().requires_grad_(requires_grad) : input;
}

SavedInput::SavedInput(const at::Tensor& input, std::unique_ptr<torch::autograd::SavedVariableHooks> hooks)
    : saved_(input, /*is_output=*/false), requires_grad_(input.defined() && input.requires_grad()) {
  if (hooks != nullptr && input.defined()) saved_.register_hooks(std::move(hooks));
}

at::Tensor SavedInput::leaf() const {
  return leaf_of(saved_.unpack(), requires_grad_);
}

}  // namespace zero
