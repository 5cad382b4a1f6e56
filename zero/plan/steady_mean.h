// SteadyMean: the mean of a rank's steps, as long as its pace stays the same, and how far off it may be.
//
//   SteadyMean mean;
//   mean.add(0.10);                          // after each step
//   if (mean.is_due()) ... mean.value(), mean.error()
//   mean.restart();                          // other steps follow
//
// Due after every kWindow steps. The mean leaves out the fourth of the steps that were fastest and the fourth that were
// slowest: one stall is no pace, and a rank that is stopped again and again counts with the mean of its stops. When the
// newest window departs from the steps before it by more than kDeparts, those are forgotten; so are steps before the last
// kMost. The error is the standard error of the mean. Values only; Local.
#pragma once

#include <cstddef>
#include <vector>

namespace zero {

class SteadyMean {
 public:
  static constexpr std::size_t kWindow = 4;
  static constexpr std::size_t kMost = 24;  // steps, whole windows
  static constexpr double kDeparts = 0.2;   // of the mean before

  void add(double seconds);
  bool is_due() const { return !seconds_.empty() && seconds_.size() % kWindow == 0; }
  double value() const;
  double error() const;
  void restart() { seconds_.clear(); }

 private:
  std::vector<double> seconds_;
};

}  // namespace zero
