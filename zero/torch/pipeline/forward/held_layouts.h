// HeldLayouts: parameters with the type and the device with which they will be held, while operators are learned.
//
//   {
//     const HeldLayouts layouts(parameters);                    // deferred bf16 parameters: now bf16 on the CPU
//     plan = learn_forward(parameters, loss, nullptr);
//   }                                                           // the parameters have their own data again
//
// A model may convert its inputs to the type of a weight, and libtorch compares devices. Deferred parameters are on the
// meta device. Parameters that differ are replaced by absent tensors, which have sizes and no memory. Local.
#pragma once

#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zero/plan/units/param_spec.h"
#include "zero/torch/module/module_parameters.h"

namespace zero {

// Returns an absent tensor on the CPU, with the sizes and the type of the parameter.
at::Tensor absent_parameter(const ParamSpec& spec);

class HeldLayouts {
 public:
  explicit HeldLayouts(const ModuleParameters& parameters);
  HeldLayouts(const HeldLayouts&) = delete;
  HeldLayouts& operator=(const HeldLayouts&) = delete;
  ~HeldLayouts();

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> own_;  // parameters, and their own data
};

}  // namespace zero
