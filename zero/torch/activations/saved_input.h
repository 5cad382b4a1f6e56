// SavedInput: an input of an activation checkpoint between the forward and the backward pass. The one place that knows
// where it lies: in memory as it is, or wherever `hooks` have put it (libtorch's own interface for saved tensors: pack
// when kept, unpack when wanted).
//
//   SavedInput kept(x, nullptr);
//   at::Tensor again = kept.leaf();      // x's values, at the root of a graph of its own
//
// Local.
#pragma once

#include <memory>

#include <torch/csrc/autograd/saved_variable.h>

namespace zero {

class SavedInput {
 public:
  // `input` may be undefined; it then comes back so, and has no hooks.
  SavedInput(const at::Tensor& input, std::unique_ptr<torch::autograd::SavedVariableHooks> hooks);

  // Requires a gradient where the input did. Throws c10::Error when the input was written in place since.
  at::Tensor leaf() const;

 private:
  torch::autograd::SavedVariable saved_;
  bool requires_grad_;
};

// The values of `input` at the root of a graph of its own.
at::Tensor leaf_of(const at::Tensor& input, bool requires_grad);

}  // namespace zero
