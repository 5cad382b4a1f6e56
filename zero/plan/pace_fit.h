// PaceFit: how long a rank computes for any number of samples, learned from the numbers that it has taken.
//
//   PaceFit fit;
//   fit.learn(16, 0.36).seconds(8)     // 0.18: one number of samples says nothing of a fixed part
//   fit.learn(8, 0.20)                 // {.sample = 0.02, .fixed = 2}
//
// Where the number of samples changes by a fourth or more, the two measurements tell the fixed part from that of each
// sample. It is remembered in samples, so that it stays when the rank slows down.
//
// kMostFixed bounds it, and so bounds an error, such as of a rank that slowed down between two measurements: shares that
// follow the fit go at least half of the way to those at which all ranks end together, if the fixed part is at most half
// of the time, and overshoot by at most half of it. So they come there whatever was measured before.
// Values only; Local.
#pragma once

#include <cstdint>

#include "zero/plan/balance.h"

namespace zero {

class PaceFit {
 public:
  static constexpr double kMostFixed = 1.0 / 3;  // of the seconds of a measurement

  // `seconds`: of a step with `samples` > 0 in a micro-batch; at least a nanosecond counts: a clock may stand still.
  RankPace learn(std::int64_t samples, double seconds);

 private:
  std::int64_t samples_ = 0;  // of the last measurement; 0: there was none
  double seconds_ = 0;
  double fixed_ = 0;
};

}  // namespace zero
