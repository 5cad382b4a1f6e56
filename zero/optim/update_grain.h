// update_grain(): how many elements of a parameter a thread updates at a time.
//
//   team.for_range(0, numel, update_grain(numel, team.size()), update);
//
// A multiple of kCodeBlock, so that no block of codes has two threads. Long spans cost less: with its span a thread of
// Adafactor begins and ends a sum of each column. Local.
#pragma once

#include <algorithm>
#include <cstdint>

#include "zero/base/state_spec.h"

namespace zero {

constexpr std::int64_t update_grain(std::int64_t numel, int num_threads) {
  constexpr std::int64_t kLeast = 1 << 18, kMost = 1 << 20;
  static_assert(kLeast % kCodeBlock == 0 && kMost % kCodeBlock == 0);
  return std::clamp(numel / num_threads / kCodeBlock * kCodeBlock, kLeast, kMost);
}

}  // namespace zero
