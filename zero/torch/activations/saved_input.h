// SavedInput: an input of an activation checkpoint between the forward and the backward pass.
//
//   SavedInput kept(x, nullptr);
//   at::Tensor again = kept.leaf();      // x's values, at the root of a separate graph
//
// Only this class knows where the input is: unchanged in memory, or in the place where `hooks` have stored it. The
// hooks are libtorch's interface for saved tensors, with functions that pack and unpack a tensor. Local.
#pragma once

#include <memory>

#include <torch/csrc/autograd/saved_variable.h>

namespace zero {

class SavedInput {
 public:
  // `input` may be undefined. leaf() is then undefined, and no hooks are used.
  SavedInput(const at::Tensor& input, std::unique_ptr<torch::autograd::SavedVariableHooks> hooks);

  // Returns a tensor that requires a gradient if the input did. Throws c10::Error if the input was written in place
  // since.
  at::Tensor leaf() const;

 private:
  torch::autograd::SavedVariable saved_;
  bool requires_grad_;
};

// Returns the values of `input` at the root of a separate graph.
at::Tensor leaf_of(const at::Tensor& input, bool requires_grad);

}  // namespace zero
