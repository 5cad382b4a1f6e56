// Random placements for properties. Each state that may leave the device has any part on the host and on disk. None and
// all are as frequent as a part.
#pragma once

#include <algorithm>

#include <rapidcheck.h>

#include "zero/plan/units/placement.h"

namespace zero::tests {

inline TierFractions random_fractions() {
  constexpr int kWhole = 1024;  // so parts add up exactly
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

// Fractions for the states that a stage shards: parameters at stage 3, and from stage 2 on gradients if each
// micro-batch is reduced.
inline StateFractions random_state_fractions(int stage, bool reduce_each) {
  StateFractions fractions{.optimizer = random_fractions()};
  if (stage >= 3) fractions.parameter = random_fractions();
  if (stage >= 2 && reduce_each) fractions.gradient = random_fractions();
  return fractions;
}

}  // namespace zero::tests
