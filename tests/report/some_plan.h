// The plan of a small model: an embedding, three equal blocks, and a norm.
#pragma once

#include <array>
#include <string>

#include "app/report/plan/training_plan.h"

namespace zero {

inline TrainingPlan some_plan(int world, int stage, DType dtype = DType::kFloat32) {
  TrainingPlan plan{.model = "gpt2", .world = world, .options = {.stage = stage}};
  plan.specs.push_back({.name = "wte.weight", .shape = {256, 64}, .dtype = dtype, .own_unit = true});
  for (const char* block : {"h.0", "h.1", "h.2"})
    plan.specs.push_back({.name = std::string(block) + ".weight", .shape = {64, 64}, .dtype = dtype});
  plan.specs.push_back({.name = "ln_f.weight", .shape = {64}, .dtype = dtype});
  plan.units = make_units(plan.specs, {});
  return plan;
}

inline constexpr std::int64_t kPlanParameters = 256 * 64 + 3 * 64 * 64 + 64;
inline constexpr std::array kAllStages{0, 1, 2, 3};

}  // namespace zero
