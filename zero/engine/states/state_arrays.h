// StateArrays: what a rank holds of every unit, an array a state: parameter, gradient, master, and the states that the
// optimizer asks for, by name. How many those are, nobody assumes.
//
//   for (const auto& each : state.arrays().optimizer) print(each.state.name);        // "exp_avg", "exp_avg_sq"
#pragma once

#include <vector>

#include "zero/base/numbers/state_spec.h"
#include "zero/engine/states/state_array.h"

namespace zero {

struct StateArrays {
  struct Optimizer {
    StateSpec state;
    StateArray array;   // its values, or their codes
    StateArray scales;  // of codes; else of no unit
  };
  StateArray parameter, gradient, master;
  StateArray kept_gradient;  // with a delayed update: the one that waits to be applied
  std::vector<Optimizer> optimizer;
};

}  // namespace zero
