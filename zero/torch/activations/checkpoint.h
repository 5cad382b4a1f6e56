// checkpoint(): an activation checkpoint. The activations that `fn` makes are not kept for the backward pass, but made
// again there.
//
//   y = zero::checkpoint([block](const auto& in) { return block->forward(in[0]); }, {x});
//
// From forward to backward only the inputs are kept. A chain of such blocks holds the activations of one block at a
// time, and computes each block's forward pass twice. The second run has the first one's random numbers (the default
// generators of the CPU and of the inputs' GPU) and autocast, without its cache. Losses and gradients have the bits of a run without checkpoint();
// only the gradient of a tensor that is used in several checkpoints, or inside one and outside, may round differently,
// since its parts are added in another order. Checkpoints may lie inside each other; without gradient mode there is
// nothing to keep, and fn is called as it is.
//
// Rules for fn:
//   - it does the same in both runs: a captured value does not change, numbers are drawn from the default generator
//     alone. What it writes is written twice (the statistics of a BatchNorm).
//   - inputs are read, not written in place: ConfigError, or libtorch's error in backward if somebody else wrote them
//   - a tensor that was computed outside and needs a gradient comes in through `inputs`, not by capture: ConfigError.
//     Parameters may be captured, and need no input beside them.
//   - inputs lie on the CPU and on one GPU: ConfigError. Undefined ones, integers and ones without gradient are fine.
// In backward, as a ConfigError: a gradient of a gradient (create_graph), gradients of chosen tensors alone
// (torch::autograd::grad), a second backward pass where the first did not retain the graph, outputs of another shape.
//
// Local as fn is: parameters that are sharded are gathered again for the second run, which is part of the backward pass
// (Collective, like its other operators).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace zero {

struct CheckpointOptions {
  // Stores inputs between the two passes: makes hooks for each defined input, which pack it away once and bring it back
  // once for each backward pass. Absent: the tensor itself is kept.
  std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()> keep;
};

at::Tensor checkpoint(const std::function<at::Tensor(const std::vector<at::Tensor>&)>& fn,
                      std::vector<at::Tensor> inputs, const CheckpointOptions& options = {});
// Several outputs; any of them may be undefined, without gradient, or unused.
std::vector<at::Tensor> checkpoint(const std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>& fn,
                                   std::vector<at::Tensor> inputs, const CheckpointOptions& options = {});

}  // namespace zero
