// What a step should take, as report.json and `zero plan --json` say it: seconds and the busiest resource, in all and
// by phase. Values only.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "zero/plan/step_model.h"

namespace zero {

inline nlohmann::ordered_json predicted_json(const PredictedStep& step) {
  nlohmann::ordered_json json{{"seconds", step.total()}, {"bound", name_of(step.bound())}};
  for (const StepPhase phase : kAllStepPhases)
    json[std::string(name_of(phase))] = {{"seconds", step.seconds(phase)}, {"bound", name_of(step.bound(phase))}};
  return json;
}

}  // namespace zero
