// MemoryPolicy: how many bytes a rank should give back when others need memory, and may take again later.
//
//   MemoryPolicy policy(512 << 20, /*ranks=*/2);
//   policy.judge(worst, now)                         // > 0: give back; < 0: may be taken; 0: no change
//   policy.changed();                                // bytes were given back or taken, here and on the other ranks
//
// A reserve should stay free. If less was free, the ranks give back enough to make it twice the reserve. If four times
// the reserve was free for several steps, they take half of the excess over three times the reserve. In between nothing
// moves, so a program with short allocations does not move states to and fro.
//
// A machine on which processes wait for memory (pressure) has too little free memory, whatever the number. Pressure is
// an average over ten seconds, so the policy reacts to it once in ten seconds. Local.
#pragma once

#include <cstdint>

#include "zero/memory/memory_watch.h"

namespace zero {

class MemoryPolicy {
 public:
  static constexpr int kCalmSteps = 8;       // steps before memory is taken again
  static constexpr double kStalled = 10;     // percent: too much
  static constexpr double kUndisturbed = 1;  // percent: negligible
  static constexpr double kPressureSeconds = 10;
  static constexpr std::int64_t kLeastChange = std::int64_t{1} << 20;

  // `ranks`: number of ranks that share the memory.
  MemoryPolicy(std::int64_t reserve_bytes, int ranks);

  // `now`: seconds of a monotonic clock.
  std::int64_t judge(const MemoryReading& worst, double now);
  void changed() { calm_steps_ = 0; }

 private:
  std::int64_t reserve_;
  int ranks_;
  int calm_steps_ = 0;
  double ignores_pressure_until_ = 0;
};

// Returns the reserve if `memory_bytes` are free: a sixteenth, from 64 MiB to 1 GiB.
std::int64_t default_reserve(std::int64_t memory_bytes);

}  // namespace zero
