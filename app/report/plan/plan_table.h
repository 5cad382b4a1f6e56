// plan_table(): the plan for people: units, bytes a rank holds by tag, bytes it sends, and the formulas of the papers.
//
//   std::cout << plan_table(plan, {3});             // what `zero train` prints first
//   std::cout << plan_table(plan, {0, 1, 2, 3});    // what `zero plan` prints: all stages side by side
//
// Lines have at most 80 columns; a row is wider only if the name of a unit is long. Local; values only.
#pragma once

#include <span>
#include <string>

#include "app/report/plan/training_plan.h"

namespace zero {

std::string plan_table(const TrainingPlan& plan, std::span<const int> stages);

}  // namespace zero
