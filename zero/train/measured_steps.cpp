#include "zero/train/measured_steps.h"

#include <algorithm>

#include "zero/train/report.h"

namespace zero {

void MeasuredSteps::add(const StepMetrics& metrics, double exposed) {
  forward_.push_back(metrics.forward);
  backward_.push_back(metrics.backward);
  update_.push_back(metrics.phases.update);
  exposed_.push_back(exposed);
  total_.push_back(metrics.seconds);
}

MeasuredStep MeasuredSteps::median() const {
  return {.forward = median_step_seconds(forward_),
          .backward = median_step_seconds(backward_),
          .update = median_step_seconds(update_),
          .exposed = median_step_seconds(exposed_),
          .total = median_step_seconds(total_)};
}

PredictedStep prediction(PredictedStep transfers, const MeasuredStep& measured) {
  const auto busy = [&](StepPhase phase, Resource resource) -> double& {
    return transfers.busy[static_cast<std::size_t>(phase)][static_cast<std::size_t>(resource)];
  };
  const double update = busy(StepPhase::kUpdate, Resource::kUpdate);
  const double computed = std::max(measured.total - measured.exposed - update, 0.0);
  const double passes = measured.forward + measured.backward;
  if (passes <= 0) return transfers;
  busy(StepPhase::kForward, Resource::kCompute) = computed * measured.forward / passes;
  busy(StepPhase::kBackward, Resource::kCompute) = computed * measured.backward / passes;
  return transfers;
}

}  // namespace zero
