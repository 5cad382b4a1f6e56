// checkpoint(): an activation checkpoint. `fn`'s activations are not kept for backward, but computed again there.
//
//   y = zero::checkpoint([block](const auto& in) { return block->forward(in[0]); }, {x});
//
// From forward to backward only the inputs are kept. A chain of such blocks holds the activations of one block at a
// time, and computes each block's forward pass twice. The second run uses the first run's random numbers (the default
// generators of the CPU and of the inputs' GPU) and autocast, without its cache. Losses and gradients have the bits of
// a run without checkpoint(). There is one exception: the gradient of a tensor used in several checkpoints, or inside
// one and outside, may round differently, because its parts are added in another order. Checkpoints may be nested.
// Without gradient mode, fn is simply called.
//
// Local as fn is. Sharded parameters are gathered again for the second run, which is part of the backward pass
// (Collective, like its other operators).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace zero {

struct CheckpointOptions {
  // Stores inputs between the two passes. It makes hooks for each defined input, which store the input once and restore
  // it once for each backward pass. Absent: the tensor itself is kept.
  std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()> keep;
};

at::Tensor checkpoint(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& fn,
                      std::vector<at::Tensor> inputs, const CheckpointOptions& options = {});
// Takes a function with several outputs. Each output may be undefined, without gradient, or unused.
std::vector<at::Tensor> checkpoint(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& fn,
                                   std::vector<at::Tensor> inputs, const CheckpointOptions& options = {});

}  // namespace zero
