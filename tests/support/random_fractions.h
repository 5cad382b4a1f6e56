// Placements of all kinds, for properties: of each state that may leave the device any part on the host and on disk,
// nothing and all of it as often as something between.
#pragma once

#include <algorithm>

#include <rapidcheck.h>

#include "zero/plan/units/placement.h"

namespace zero::tests {

inline TierFractions random_fractions() {
  constexpr int kWhole = 1024;  // parts of it add up exactly
  switch (*rc::gen::element(0, 1, 2, 3, 3, 3)) {
    case 0:
      return {};
    case 1:
      return {.host = 1};
    case 2:
      return {.disk = 1};
    default:
      const auto part = rc::gen::resize(rc::kNominalSize, rc::gen::inRange(0, kWhole + 1));
      const int one = *part, other = *part;
      return {.host = std::min(one, other) / static_cast<double>(kWhole),
              .disk = std::abs(one - other) / static_cast<double>(kWhole)};
  }
}

// What a stage has cut in shards may leave: parameters at 3, gradients from 2 on where each micro-batch is reduced.
inline StateFractions random_state_fractions(int stage, bool reduce_each) {
  StateFractions fractions{.optimizer = random_fractions()};
  if (stage >= 3) fractions.parameter = random_fractions();
  if (stage >= 2 && reduce_each) fractions.gradient = random_fractions();
  return fractions;
}

}  // namespace zero::tests
