// StateArrays: the states of every unit on a rank, one StateArray for each state.
//
//   for (const auto& each : state.arrays().optimizer) print(each.state.name);        // "exp_avg", "exp_avg_sq"
//
// They are parameter, gradient, master, and any number of optimizer states by name.
#pragma once

#include <vector>

#include "zero/base/numbers/state_spec.h"
#include "zero/engine/states/state_array.h"

namespace zero {

struct StateArrays {
  struct Optimizer {
    StateSpec state;
    StateArray array;   // values, or their codes
    StateArray scales;  // scales of the codes; no unit has them if there are no codes
  };
  StateArray parameter, gradient, master;
  StateArray kept_gradient;  // with a delayed update: the waiting gradient
  std::vector<Optimizer> optimizer;
};

}  // namespace zero
