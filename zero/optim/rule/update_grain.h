// update_grain(): how many elements of a parameter a thread updates at a time.
//
//   team.for_range(0, numel, update_grain(numel, team.size(), by_element), update);
//
// The result is a multiple of kCodeBlock, so a block of codes has only one thread. `by_element`: the rule updates
// elements independently (RuleNeeds::kElements); sixteen threads then share a tile of states that are off the device.
// Other rules are cheaper with long spans: for each span, a thread of Adafactor begins and ends a sum of each column.
// Local.
#pragma once

#include <algorithm>
#include <cstdint>

#include "zero/base/numbers/state_spec.h"

namespace zero {

constexpr std::int64_t update_grain(std::int64_t numel, int num_threads, bool by_element) {
  constexpr std::int64_t kLeastByElement = 1 << 14, kLeast = 1 << 18, kMost = 1 << 20;
  static_assert(kLeastByElement % kCodeBlock == 0 && kLeast % kCodeBlock == 0 && kMost % kCodeBlock == 0);
  return std::clamp(numel / num_threads / kCodeBlock * kCodeBlock, by_element ? kLeastByElement : kLeast, kMost);
}

}  // namespace zero
