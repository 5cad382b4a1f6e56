// Measurement: several times of one part. The best is the least that the machine needs, the median is what a user
// gets.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "zero/base/check.h"

namespace zero::cli {

// A spread above this means that something else used the machine.
inline constexpr double kRestless = 0.15;

class Measurement {
 public:
  // Runs `work` once and keeps its time; seconds.
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
    std::vector<double> sorted = seconds_;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
  // How far the slowest is from the fastest: 0.15 is 15 %. A restless machine measures nothing.
  double spread() const { return *std::max_element(seconds_.begin(), seconds_.end()) / best() - 1; }

 private:
  std::vector<double> seconds_;
};

}  // namespace zero::cli
