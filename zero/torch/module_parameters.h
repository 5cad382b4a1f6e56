// What a module's parameters are, as the plan wants to know it: each tensor once, tied names as aliases, embeddings
// marked.
//
// Local. Throws ConfigError naming the parameter: a dtype that is neither fp32 nor bf16, a sparse tensor, two
// parameters that share part of their memory, one that is attached already.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <torch/nn/module.h>

#include "zero/plan/param_spec.h"

namespace zero {

struct ModuleParameters {
  std::vector<ParamSpec> specs;
  std::vector<torch::Tensor> tensors;
};

// `dtype`: what parameters will be held in; absent: what they are. Those of a module with running statistics
// (BatchNorm, InstanceNorm: a buffer "running_mean" that is defined) are then held in fp32, whatever it is, and its
// statistics are to be fp32, too: libtorch takes bf16 activations with such a module, and bf16 statistics would stand
// still.
ModuleParameters parameters_of(const torch::nn::Module& module, std::optional<DType> dtype);

// Whether a buffer of this name is one of those statistics.
bool is_running_statistic(std::string_view buffer);

}  // namespace zero
