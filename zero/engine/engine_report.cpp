// What an engine counts, and says of itself.
#include <algorithm>

#include "zero/engine/engine.h"
#include "zero/plan/estimate.h"

namespace zero {

// What crossed since the last step: between ranks, to and from disk, over the link.
void Engine::count_traffic() {
  const Traffic now = comm_.traffic();
  step_traffic_.sent_bytes = now.sent_bytes - at_last_step_.sent_bytes - untraced_.sent_bytes;
  step_traffic_.received_bytes = now.received_bytes - at_last_step_.received_bytes - untraced_.received_bytes;
  at_last_step_ = now;
  if (disk_ != nullptr) {
    const DiskTraffic& disk = disk_->traffic();
    disk_of_step_ = disk - disk_at_last_step_;
    disk_at_last_step_ = disk;
  }
  untraced_ = {};
  const double exchanged = exchange_seconds();
  exchanged_in_step_ = std::max(exchanged - exchanged_at_last_step_ - exchanged_untraced_, 0.0);
  exchanged_at_last_step_ = exchanged;
  exchanged_untraced_ = 0;
  if (link_ != nullptr) {
    const LinkTraffic& link = link_->traffic();
    link_of_step_ = link - link_at_last_step_;
    link_at_last_step_ = link;
  }
}

// Gathering and reducing, without their waits for disk and link.
double Engine::exchange_seconds() const {
  const PhaseTimer &gathers = gatherer_.timer(), &reductions = reducer_.timer();
  return gathers.seconds() - gathers.waited() + reductions.seconds() - reductions.waited();
}

// What passes exchange, they do not compute meanwhile. What is exchanged after them counts as the backward pass's.
PredictedStep Engine::predicted() const {
  StepProfile profile = this->profile();
  const double forward = std::min(exchange_clock_.profile().forward_seconds, exchanged_in_step_);
  profile.forward_seconds += forward;
  profile.backward_seconds += exchanged_in_step_ - forward;
  return placer_.predicted(state_.placement(), profile);
}

PhaseSeconds Engine::phase_seconds() const {
  return {gatherer_.timer().seconds(), reducer_.timer().seconds(), updater_.seconds(), comm_.waited_seconds()};
}

PhaseSeconds Engine::take_phase_seconds() {
  const PhaseSeconds now = phase_seconds();
  const PhaseSeconds since{now.gather - taken_.gather, now.reduce - taken_.reduce, now.update - taken_.update,
                           now.wait - taken_.wait};
  taken_ = now;
  return since;
}

EngineReport Engine::report() const {
  EngineReport report{.world = comm_.world(),
                      .rank = comm_.rank(),
                      .stage = options_.stage,
                      .transport = std::string(comm_.transport())};
  const auto at_update = [this](Tier tier) { return memory_at_update_[static_cast<std::size_t>(tier)]; };
  report.memory = at_update(Tier::kDevice);
  report.host_memory = at_update(Tier::kHost);
  report.disk_memory = at_update(Tier::kDisk);
  report.peak_host_memory = ledger_.peak(Tier::kHost);
  report.peak_host_memory_bytes = ledger_.peak_total(Tier::kHost);
  report.disk_per_step = disk_of_step_;
  report.link_per_step = link_of_step_;
  report.disk = disk_ == nullptr ? "" : disk_->describe();
  report.peak_memory = ledger_.peak(Tier::kDevice);
  report.peak_memory_bytes = ledger_.peak_total(Tier::kDevice);
  report.sent_bytes_per_step = step_traffic_.sent_bytes;
  report.received_bytes_per_step = step_traffic_.received_bytes;
  if (!schedule().entries.empty())
    report.planned_sent_bytes = simulate(schedule(), state_.units(), comm_.world()).sent_bytes;
  report.skipped_steps = num_skipped_;
  report.delayed_steps = num_delayed_;
  report.rates = placer_.rates();
  report.profile = profile();
  report.predicted = predicted();
  for (const Tier tier : kAllTiers) report.state_bytes[static_cast<std::size_t>(tier)] = ledger_.held(tier).state();
  report.movable = placer_.movable();
  report.replans = num_replans_;
  report.moved_bytes = moved_bytes_;
  report.departed_steps = num_mismatches_;
  const Placement& placement = state_.placement();
  for (const ParamSpec& spec : specs_) {
    report.num_parameters += spec.numel();
    if (!spec.trainable) {
      report.state_formula_bytes += static_cast<double>(spec.numel()) * static_cast<double>(size_of(spec.dtype)) /
                                    (placement.parameter_sharded ? comm_.world() : 1);
      continue;
    }
    if (placement.delayed_update)  // the gradient that waits
      report.state_formula_bytes += static_cast<double>(spec.numel()) *
                                    (placement.fp32_gradient() ? 4.0 : static_cast<double>(size_of(spec.dtype))) /
                                    comm_.world();
    report.state_formula_bytes +=
        state_formula_bytes(spec.numel(), comm_.world(), options_.stage, spec.dtype, rule_->num_moments());
    report.sent_formula_bytes +=
        sent_formula_numel(spec.numel(), comm_.world(), placement) * static_cast<double>(size_of(spec.dtype));
  }
  for (const Unit& unit : state_.units())
    report.padding_bytes += padding_numel(unit, comm_.world()) * static_cast<std::int64_t>(size_of(unit.dtype));
  return report;
}

}  // namespace zero
