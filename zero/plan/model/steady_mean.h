// SteadyMean: the mean seconds of a rank's steps while its pace stays the same, and the error of that mean.
//
//   SteadyMean mean;
//   mean.add(0.10);                          // after each step
//   if (mean.is_due()) ... mean.value(), mean.error()
//   mean.restart();                          // other steps follow
//
// Due after every kPeriod steps. The mean leaves out the fastest and the slowest fourth of the steps. So a single stall
// has no effect, and a rank that is stopped regularly counts with the mean of its stops. If the newest period differs
// from the steps before it by more than kDeparts, the earlier steps are forgotten. Only the last kMost steps are kept.
// The error is the standard error of the mean. Values only; Local.
#pragma once

#include <cstddef>
#include <vector>

namespace zero {

class SteadyMean {
 public:
  static constexpr std::size_t kPeriod = 4;
  static constexpr std::size_t kMost = 24;  // steps, in whole periods
  static constexpr double kDeparts = 0.2;   // fraction of the earlier mean

  void add(double seconds);
  bool is_due() const { return !seconds_.empty() && seconds_.size() % kPeriod == 0; }
  double value() const;
  double error() const;
  void restart() { seconds_.clear(); }

 private:
  std::vector<double> seconds_;
};

}  // namespace zero
