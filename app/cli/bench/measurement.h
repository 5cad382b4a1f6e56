// Measurement: the times of several runs of a part.
//
//   Measurement part;
//   for (int round = 0; round < 5; ++round) part.time([&] { run(); });
//   part.best();     // the least time that the machine needs
//   part.median();   // the time that a user gets
//
// Invariant: best(), median() and spread() need at least one time. Local.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "zero/base/error/check.h"
#include "zero/base/numbers/median.h"

namespace zero::cli {

// A spread above this value means that something else used the machine.
inline constexpr double kRestless = 0.15;

class Measurement {
 public:
  // Runs `work` once, records its time, and returns it in seconds.
  template <typename Work>
  double time(Work&& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return seconds_.back();
  }
  void add(double seconds) { seconds_.push_back(seconds); }
  std::size_t count() const { return seconds_.size(); }

  double best() const {
    ZERO_CHECK(!seconds_.empty());
    return *std::min_element(seconds_.begin(), seconds_.end());
  }
  double median() const {
    ZERO_CHECK(!seconds_.empty());
    return median_of(seconds_);
  }
  // Returns how much longer the slowest time is than the fastest: 0.15 is 15 %. The times of a restless machine mean
  // nothing.
  double spread() const { return *std::max_element(seconds_.begin(), seconds_.end()) / best() - 1; }

 private:
  std::vector<double> seconds_;
};

}  // namespace zero::cli
