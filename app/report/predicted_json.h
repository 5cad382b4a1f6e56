// predicted_json(): a predicted step for report.json and `zero plan --json`. Values only.
//
//   json["predicted"] = predicted_json(*plan.predicted);
//
// It has seconds and the busiest resource, in all and by phase, and by phase the busy seconds of each resource.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "zero/plan/model/step_model.h"

namespace zero {

inline nlohmann::ordered_json predicted_json(const PredictedStep& step) {
  nlohmann::ordered_json json{{"seconds", step.total()}, {"bound", name_of(step.bound())}};
  for (const StepPhase phase : kAllStepPhases) {
    nlohmann::ordered_json busy;
    for (int resource = 0; resource < kNumResources; ++resource)
      busy[std::string(name_of(static_cast<Resource>(resource)))] =
          step.busy[static_cast<std::size_t>(phase)][static_cast<std::size_t>(resource)];
    json[std::string(name_of(phase))] = {
        {"seconds", step.seconds(phase)}, {"bound", name_of(step.bound(phase))}, {"busy", std::move(busy)}};
  }
  return json;
}

}  // namespace zero
