// parameters_of(): the parameters and buffers of a model for the plan: each tensor once, tied names as aliases.
//
// Local. Throws ConfigError with the parameter's name for a dtype that is not fp32, bf16 or fp16, and for a sparse
// tensor. Also for two parameters that share part of their memory, and for a parameter that is attached already.
#pragma once

#include <optional>
#include <vector>

#include "zero/plan/units/param_spec.h"
#include "zero/torch/module/model_tensors.h"

namespace zero {

struct ModuleParameters {
  std::vector<ParamSpec> specs;
  std::vector<torch::Tensor> tensors;
  std::vector<ModelTensors::Buffer> buffers;
};

// `dtype`: the type in which parameters will be held, except parameters that stay fp32 beside running statistics.
// Absent: the parameters' own types.
ModuleParameters parameters_of(const ModelTensors& model, std::optional<DType> dtype);
ModuleParameters parameters_of(const torch::nn::Module& module, std::optional<DType> dtype);

}  // namespace zero
