// MeasuredSteps: how a rank's steps spent their seconds, and the bytes that moved between its tiers.
//
//   MeasuredSteps steps;
//   steps.add(metrics, waited_for_transfers);        // after each step
//   const MeasuredStep typical = steps.median();
//   steps.transfers().requests.disk.read_bytes       // of a step
//
// It counts the steps after the warm-up, or all steps if there are no more. Local; values only.
#pragma once

#include <cstddef>
#include <vector>

#include "app/report/files/metrics_log.h"

namespace zero {

// Seconds of a step. Gathers and reductions between ranks are part of forward and backward. So is an overlapped update,
// which runs before its unit is used.
struct MeasuredStep {
  double forward = 0;
  double backward = 0;
  double update = 0;   // in every phase
  double exposed = 0;  // waits for disk and link
  double total = 0;
};

class MeasuredSteps {
 public:
  static constexpr std::size_t kMostTransfers = 1000;

  void add(const StepMetrics& metrics, double exposed);
  bool past_warmup() const;
  // Returns the median of each number by itself.
  MeasuredStep median() const;
  // Returns medians of the last kMostTransfers steps. A step without transfers counts as 0.
  StepTransfers transfers() const;

 private:
  std::vector<double> forward_, backward_, update_, exposed_, total_;
  std::vector<StepTransfers> transfers_;  // the warm-up first, then a ring of the newest
};

}  // namespace zero
