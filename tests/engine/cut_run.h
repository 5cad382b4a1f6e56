#pragma once
// A run by which ways of cutting units are compared: a parameter has no gradient in the last step, so its count of updates
// differs, and its elements are left alone.
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
