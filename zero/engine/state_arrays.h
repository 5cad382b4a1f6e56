// StateArrays: what a rank holds of every unit, an array a state: parameter, gradient, master, and the states that the
// optimizer asks for, by name. How many those are, and of what type, nobody assumes.
//
//   for (const auto& [state, array] : state.arrays().optimizer) print(state.name);   // "exp_avg", "exp_avg_sq"
#pragma once

#include <string>
#include <vector>

#include "zero/base/dtype.h"
#include "zero/engine/state_array.h"

namespace zero {

class UpdateRule;

struct OptimizerState {
  std::string name;  // torch.optim's
  DType dtype = DType::kFloat32;
};

std::vector<OptimizerState> optimizer_states(const UpdateRule& rule);

struct StateArrays {
  struct Optimizer {
    OptimizerState state;
    StateArray array;
  };
  StateArray parameter, gradient, master;
  StateArray kept_gradient;  // with a delayed update: the one that waits to be applied
  std::vector<Optimizer> optimizer;
};

}  // namespace zero
