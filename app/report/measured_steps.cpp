#include "app/report/measured_steps.h"

#include <cmath>

#include "app/report/report.h"

namespace zero {

void MeasuredSteps::add(const StepMetrics& metrics, double exposed) {
  const std::size_t num_before = total_.size();
  forward_.push_back(metrics.forward);
  backward_.push_back(metrics.backward);
  update_.push_back(metrics.work.update);
  exposed_.push_back(exposed);
  total_.push_back(metrics.seconds);
  const StepTransfers transfers = metrics.transfers.value_or(StepTransfers{});
  if (num_before < kWarmupSteps + kMostTransfers) {
    transfers_.push_back(transfers);
  } else {
    transfers_[kWarmupSteps + (num_before - kWarmupSteps) % kMostTransfers] = transfers;
  }
}

bool MeasuredSteps::past_warmup() const {
  return total_.size() > kWarmupSteps;
}

MeasuredStep MeasuredSteps::median() const {
  return {.forward = median_step_seconds(forward_),
          .backward = median_step_seconds(backward_),
          .update = median_step_seconds(update_),
          .exposed = median_step_seconds(exposed_),
          .total = median_step_seconds(total_)};
}

StepTransfers MeasuredSteps::transfers() const {
  const auto seconds = [this](auto part_of, auto number) {
    std::vector<double> values;
    for (const StepTransfers& step : transfers_) values.push_back(static_cast<double>(part_of(step).*number));
    return median_step_seconds(values);
  };
  const auto bytes = [&](auto part_of, auto number) { return std::llround(seconds(part_of, number)); };
  StepTransfers medians;
  for (const Tier tier : kRequestTiers) {
    const auto there = [tier](const StepTransfers& step) -> const DiskTraffic& { return step.requests[tier]; };
    medians.requests[tier] = {.read_bytes = bytes(there, &DiskTraffic::read_bytes),
                              .written_bytes = bytes(there, &DiskTraffic::written_bytes),
                              .waited_seconds = seconds(there, &DiskTraffic::waited_seconds),
                              .busy_seconds = seconds(there, &DiskTraffic::busy_seconds)};
  }
  const auto link = [](const StepTransfers& step) -> const LinkTraffic& { return step.link; };
  medians.link = {.up_bytes = bytes(link, &LinkTraffic::up_bytes),
                  .down_bytes = bytes(link, &LinkTraffic::down_bytes),
                  .busy_seconds = seconds(link, &LinkTraffic::busy_seconds),
                  .waited_seconds = seconds(link, &LinkTraffic::waited_seconds),
                  .up_busy_seconds = seconds(link, &LinkTraffic::up_busy_seconds),
                  .up_waited_seconds = seconds(link, &LinkTraffic::up_waited_seconds)};
  return medians;
}

}  // namespace zero
