// What a model's parameters are, as the plan wants to know it: each tensor once, tied names as aliases.
//
// Local. Throws ConfigError naming the parameter: a dtype that is neither fp32, bf16 nor fp16, a sparse tensor, two
// parameters that share part of their memory, one that is attached already.
#pragma once

#include <optional>
#include <vector>

#include "zero/plan/param_spec.h"
#include "zero/torch/model_tensors.h"

namespace zero {

struct ModuleParameters {
  std::vector<ParamSpec> specs;
  std::vector<torch::Tensor> tensors;
};

// `dtype`: what parameters will be held in, but for those that stay fp32 beside running statistics; absent: what they
// are.
ModuleParameters parameters_of(const ModelTensors& model, std::optional<DType> dtype);
ModuleParameters parameters_of(const torch::nn::Module& module, std::optional<DType> dtype);

}  // namespace zero
