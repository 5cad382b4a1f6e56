// Random step models for properties of placements: units smaller and larger than a block, frozen units, slow and absent
// resources.
#pragma once

#include <rapidcheck.h>

#include "zero/plan/placement/best_placement.h"

#include "tests/plan/one_unit.h"
#include "tests/support/fp32_states.h"

namespace zero {

inline StepModel random_step_model() {
  const auto rate = [](double scale) { return *rc::gen::element(0.0, 0.1, 0.3, 1.0, 2.0, 7.0) * scale; };
  StepModel model;
  model.world = *rc::gen::inRange(1, 5);
  model.placement = place(*rc::gen::inRange(0, 4), Reduce::kAuto, *rc::gen::inRange(1, 4));
  model.optimizer = fp32_states(*rc::gen::inRange(0, 3));
  model.optimizer.num_reads = *rc::gen::inRange(1, 3);
  model.rates = {
      .link_up = rate(1e9),
      .link_down = rate(1e9),
      .requests = {.disk = {.read = rate(1e9), .write = rate(1e9), .share = *rc::gen::element(0.5, 0.8, 1.0, 1.3)}},
      .update_numel = rate(1e9),
      .device_update_numel = *rc::gen::element(0.0, 3e9)};
  model.profile.forward_seconds = *rc::gen::element(0.0, 1e-4, 1e-2);
  model.profile.backward_seconds = 2 * model.profile.forward_seconds;
  model.profile.min_budget = *rc::gen::inRange(0, 4) == 0;
  const int num_units = *rc::gen::inRange(1, 12);
  const bool knows_uses = *rc::gen::inRange(0, 2) > 0;
  for (int i = 0; i < num_units; ++i) {
    const auto numel =
        *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 9000), rc::gen::inRange<std::int64_t>(9000, 400000));
    const DType dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16);
    model.units.push_back(one_unit(numel, dtype, i, /*trainable=*/*rc::gen::inRange(0, 5) > 0));
    model.profile.forward_gathers.push_back(*rc::gen::inRange(0, 3));
    model.profile.backward_gathers.push_back(*rc::gen::inRange(0, 2));
    if (!knows_uses) continue;
    model.profile.used_at.push_back(*rc::gen::element(0.0, 0.1, 0.5, 0.9));
    model.profile.gradient_at.push_back(*rc::gen::element(0.1, 0.5, 0.9, 1.0));
  }
  return model;
}

// Budgets between no memory and more than enough.
inline TierBudgets random_budgets(std::int64_t all_bytes) {
  const auto part = [&] { return all_bytes * *rc::gen::element(0, 1, 10, 25, 33, 50, 70, 100) / 100; };
  return {part(), part(), part()};
}

}  // namespace zero
