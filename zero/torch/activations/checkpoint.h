// checkpoint(): an activation checkpoint. `fn`'s activations are not kept for backward, but computed again there.
//
//   y = zero::checkpoint([block](const auto& in) { return block->forward(in[0]); }, {x});
//
// From forward to backward only the inputs are kept. A chain of such blocks holds the activations of one block at a
// time, and computes each block's forward pass twice. The second run uses the first run's random numbers (the default
// generators of the CPU and of the inputs' GPU) and autocast, without its cache. Losses and gradients have the bits of
// a run without checkpoint(), with one exception. If a tensor is used in several checkpoints, or inside one and
// outside, its gradient may round differently. The reason is that its parts are added in another order. Checkpoints may
// be nested. Without gradient mode, fn is simply called.
//
// Local if fn is Local. Sharded parameters are gathered again for the second run. That run is part of the backward
// pass, and Collective like the pass's other operators.
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

// Runs fn on `inputs` and returns its output. Rules for fn:
//   - It does the same in both runs: captured values do not change, and random numbers come only from the default
//     generator. Its writes are made twice (the statistics of a BatchNorm).
//   - It does not write its inputs in place: ConfigError. If other code wrote them, libtorch throws in backward.
//   - A tensor that was computed outside and needs a gradient is passed in `inputs`, not captured: ConfigError.
//     Parameters may be captured, and need no input beside them.
//   - All inputs are on the CPU or on one GPU: ConfigError. Undefined inputs, integers and inputs without gradient are
//     allowed.
// The backward pass throws ConfigError for a gradient of a gradient (create_graph), for gradients of chosen tensors
// (torch::autograd::grad), and for outputs of another shape. It also throws it for a second backward pass, if the first
// did not retain the graph.
at::Tensor checkpoint(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& fn,
                      std::vector<at::Tensor> inputs, const CheckpointOptions& options = {});
// Takes a function with several outputs. Each output may be undefined, without gradient, or unused.
std::vector<at::Tensor> checkpoint(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& fn,
                                   std::vector<at::Tensor> inputs, const CheckpointOptions& options = {});

}  // namespace zero
