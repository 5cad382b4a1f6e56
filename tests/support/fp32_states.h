// An optimizer that keeps `count` states of fp32, as most rules have them.
#pragma once

#include <string>

#include "zero/base/numbers/state_spec.h"

namespace zero {

inline OptimizerSpec fp32_states(int count) {
  OptimizerSpec spec{.states = {}};
  for (int i = 0; i < count; ++i) spec.states.push_back({"state_" + std::to_string(i)});
  return spec;
}

}  // namespace zero
