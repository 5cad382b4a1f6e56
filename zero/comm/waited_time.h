// WaitedTime: seconds that a polling loop has waited, without the time for which its process was stopped.
//
//   for (WaitedTime waited; !done(); rest())
//     if (waited.seconds() > limit) fail();        // called once a turn
//
// So a process that was stopped, or whose machine slept, does not consider another rank late when it resumes.
#pragma once

#include <algorithm>

#include "zero/base/process/clock.h"

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
