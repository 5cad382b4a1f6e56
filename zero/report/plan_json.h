// The plan as programs read it: units, bytes a rank holds by tag and sends, by stage and by tier, next to the formulas of
// the papers; whether it fits its machine, and what a step is predicted to take, where the plan says.
//
//   std::cout << plan_json(plan, {0, 1, 2, 3});     // one object
//
// Local; values only.
#pragma once

#include <span>
#include <string>

#include "zero/report/training_plan.h"

namespace zero {

std::string plan_json(const TrainingPlan& plan, std::span<const int> stages);

}  // namespace zero
