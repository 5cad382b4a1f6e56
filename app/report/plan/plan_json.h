// plan_json(): the plan for programs: units, and bytes that a rank holds by tag and sends, by stage and by tier.
//
//   std::cout << plan_json(plan, {0, 1, 2, 3});     // one object
//
// It has the formulas of the papers beside these bytes. If the plan has them, also whether it fits its machine, and the
// prediction of a step. Local; values only.
#pragma once

#include <span>
#include <string>

#include "app/report/plan/training_plan.h"

namespace zero {

std::string plan_json(const TrainingPlan& plan, std::span<const int> stages);

}  // namespace zero
