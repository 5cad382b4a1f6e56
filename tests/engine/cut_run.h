#pragma once
// cut_run(): a run that compares cuts of units. In the last step the bias of h.0 has no gradient. Its elements are then
// not updated, and its update count differs from the rest.
#include <vector>

#include "tests/engine/scripted_run.h"

namespace zero {

inline ScriptedRun cut_run(int world, const std::vector<ParamSpec>& specs, const AttachOptions& options,
                           int steps = 3) {
  const auto without_bias = [steps](ScriptedModel& model, int step) {
    const int absent = model.param_named("h.0.bias");
    model.has_gradient = [=](int param) { return step < steps - 1 || param != absent; };
  };
  return scripted_run(world, specs, options, {.steps = steps, .before = without_bias});
}

}  // namespace zero
