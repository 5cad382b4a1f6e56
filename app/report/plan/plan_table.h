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

// plan_json(): the plan for programs: units, and bytes that a rank holds by tag and sends, by stage and by tier.
//
//   std::cout << plan_json(plan, {0, 1, 2, 3});     // one object
//
// It has the formulas of the papers beside these bytes. If the plan has them, also whether it fits its machine, and the
// prediction of a step. plan_json.cpp defines it. Local; values only.
std::string plan_json(const TrainingPlan& plan, std::span<const int> stages);

}  // namespace zero
