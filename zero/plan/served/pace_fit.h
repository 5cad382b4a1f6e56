// PaceFit: learns a rank's compute time for any number of samples from the measured numbers.
//
//   PaceFit fit;
//   fit.learn(16, 0.36).seconds(8)     // 0.18: one measurement cannot reveal a fixed part
//   fit.learn(8, 0.20)                 // {.sample = 0.02, .fixed = 2}
//
// If the number of samples changes by a fourth or more, the two measurements separate the fixed part from the part per
// sample. The fixed part is stored in samples, so it stays valid if the rank slows down.
//
// kMostFixed bounds the fixed part, and so the error, for example if a rank slowed down between two measurements.
// Suppose that the true fixed part is at most half of the time. Then shares that follow the fit move at least halfway
// to the balanced shares, and overshoot by at most half. So they converge, whatever was measured before. Values only;
// Local.
#pragma once

#include <cstdint>

#include "zero/plan/placement/balance.h"

namespace zero {

class PaceFit {
 public:
  static constexpr double kMostFixed = 1.0 / 3;  // fraction of a measurement's seconds

  // Adds a measurement. `seconds`: of a step with `samples` > 0 in a micro-batch. It counts as at least a nanosecond,
  // because a clock may not advance.
  RankPace learn(std::int64_t samples, double seconds);

 private:
  std::int64_t samples_ = 0;  // samples of the last measurement; 0: no measurement yet
  double seconds_ = 0;
  double fixed_ = 0;
};

}  // namespace zero
