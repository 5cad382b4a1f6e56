// MeasuredSteps: where the seconds of a rank's steps went, and what crossed between its tiers.
//
//   MeasuredSteps steps;
//   steps.add(metrics, waited_for_transfers);        // after each
//   const MeasuredStep typical = steps.median();
//   steps.transfers().disk.read_bytes                // of a step
//
// Of the steps after the warm-up, or of all where there are no more. Local; values only.
#pragma once

#include <cstddef>
#include <vector>

#include "zero/report/metrics_log.h"

namespace zero {

// Seconds. Gathering and reducing between ranks are part of forward and backward, and so is an update that was put off
// until its unit was wanted.
struct MeasuredStep {
  double forward = 0;
  double backward = 0;
  double update = 0;   // wherever it happened
  double exposed = 0;  // waits for disk and link
  double total = 0;
};

class MeasuredSteps {
 public:
  static constexpr std::size_t kMostTransfers = 1000;

  void add(const StepMetrics& metrics, double exposed);
  bool past_warmup() const;
  // Each number's own median.
  MeasuredStep median() const;
  // The same, of the last kMostTransfers steps; a step without any counts as 0.
  StepTransfers transfers() const;

 private:
  std::vector<double> forward_, backward_, update_, exposed_, total_;
  std::vector<StepTransfers> transfers_;  // the warm-up first, then a ring
};

}  // namespace zero
