// fp32_states(): an optimizer with `count` fp32 states, like most rules.
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
