// MeasuredSteps: where the seconds of a rank's steps went, and what a step should take by the model.
//
//   MeasuredSteps steps;
//   steps.add(metrics, waited_for_transfers);        // after each
//   const MeasuredStep typical = steps.median();
//   prediction(engine.report().transfers, typical)   // what the step model says, with this computation
//
// Local; values only.
#pragma once

#include <vector>

#include "zero/plan/step_model.h"
#include "zero/train/metrics_log.h"

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
  void add(const StepMetrics& metrics, double exposed);
  // Each number's own median, after the warm-up.
  MeasuredStep median() const;

 private:
  std::vector<double> forward_, backward_, update_, exposed_, total_;
};

// `transfers` without computation, completed with what the step computed: what is left of its time without exposed
// transfers and the update's arithmetic, shared out over forward and backward as they were measured.
PredictedStep prediction(PredictedStep transfers, const MeasuredStep& measured);

}  // namespace zero
