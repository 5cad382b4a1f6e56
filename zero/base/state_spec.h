// StateSpec: a state that an update rule keeps; OptimizerSpec: all that plans, estimates and memory need of a rule.
//
//   const OptimizerSpec adam = {.states = {{"exp_avg"}, {"exp_avg_sq"}}};
//   adam.element_bytes()                             // 8: what a parameter element costs beside itself
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zero/base/dtype.h"

namespace zero {

// A value of `dtype` for each element that is updated; zeros at first.
struct StateSpec {
  std::string name;  // torch.optim's: "exp_avg", "exp_avg_sq", "momentum_buffer"
  DType dtype = DType::kFloat32;
  bool operator==(const StateSpec&) const = default;
};

struct OptimizerSpec {
  std::vector<StateSpec> states = {{"exp_avg"}, {"exp_avg_sq"}};  // Adam's
  // How often a step reads parameter, gradient and states: twice where a rule needs sums over a whole parameter first.
  int num_reads = 1;

  std::int64_t element_bytes() const {
    std::int64_t bytes = 0;
    for (const StateSpec& state : states) bytes += static_cast<std::int64_t>(size_of(state.dtype));
    return bytes;
  }
  bool operator==(const OptimizerSpec&) const = default;
};

}  // namespace zero
