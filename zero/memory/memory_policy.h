// MemoryPolicy: how many bytes a rank should give back when others need memory, and may take again when they do not.
//
// A reserve is to stay free. Where less was free, as much is given back as makes it twice the reserve; where four times
// the reserve was free for several steps, half of what is above three times is taken again. Between the two nothing
// moves, so that a program that comes and goes does not make states wander.
//
//   MemoryPolicy policy(512 << 20, /*ranks=*/2);
//   policy.judge(worst, now)                         // > 0: give back; < 0: may be taken; 0: leave things
//   policy.changed();                                // something was given back or taken, here and on the other ranks
//
// A machine on which a process waits for memory (pressure) has too little free, however much the number says. Pressure
// is an average of ten seconds, so there is one answer to it in ten seconds. Local.
#pragma once

#include <cstdint>

#include "zero/memory/memory_monitor.h"

namespace zero {

class MemoryPolicy {
 public:
  static constexpr int kCalmSteps = 8;       // before anything is taken again
  static constexpr double kStalled = 10;     // percent: too much
  static constexpr double kUndisturbed = 1;  // percent: as good as none
  static constexpr double kPressureSeconds = 10;
  static constexpr std::int64_t kLeastChange = std::int64_t{1} << 20;

  // `ranks`: that share the memory.
  MemoryPolicy(std::int64_t reserve_bytes, int ranks);

  // `now`: seconds of any clock that only goes forward.
  std::int64_t judge(const MemoryReading& worst, double now);
  void changed() { calm_steps_ = 0; }

 private:
  std::int64_t reserve_;
  int ranks_;
  int calm_steps_ = 0;
  double ignores_pressure_until_ = 0;
};

// The reserve where `memory_bytes` are free: a sixteenth, 64 MiB to 1 GiB.
std::int64_t default_reserve(std::int64_t memory_bytes);

}  // namespace zero
