// What a module's parameters are, as the plan wants to know it: each tensor once, tied names as aliases, embeddings
// marked.
//
// Local. Throws ConfigError naming the parameter: a dtype that is neither fp32 nor bf16, a sparse tensor, two
// parameters that share part of their memory, one that is attached already.
#pragma once

#include <optional>
#include <vector>

#include <torch/nn/module.h>

#include "zero/plan/param_spec.h"

namespace zero {

struct ModuleParameters {
  std::vector<ParamSpec> specs;
  std::vector<torch::Tensor> tensors;
};

// `dtype`: what parameters will be held in; absent: what they are.
ModuleParameters parameters_of(const torch::nn::Module& module, std::optional<DType> dtype);

}  // namespace zero
