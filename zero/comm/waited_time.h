// WaitedTime: the seconds for which a loop of short rests has waited, without those for which the process itself stood still.
//
//   for (WaitedTime waited; !done(); rest())
//     if (waited.seconds() > limit) fail();        // asked once a turn
//
// A process that is stopped, or whose machine sleeps, calls nobody late when it goes on.
#pragma once

#include <algorithm>

#include "zero/base/clock.h"

namespace zero {

class WaitedTime {
 public:
  double seconds() {
    constexpr double kMostOfATurn = 0.2;
    const double now = monotonic_seconds();
    waited_ += std::min(now - last_, kMostOfATurn);
    last_ = now;
    return waited_;
  }

 private:
  double last_ = monotonic_seconds();
  double waited_ = 0;
};

}  // namespace zero
