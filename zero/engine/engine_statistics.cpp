#include "zero/engine/engine_statistics.h"

#include <algorithm>
#include <utility>

#include "zero/base/process/clock.h"
#include "zero/engine/options/outer_fragments.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/factored.h"
#include "zero/plan/units/secondary.h"

namespace zero {

EngineStatistics::Exchanged EngineStatistics::Exchanged::operator-(const Exchanged& other) const {
  return {sent_bytes - other.sent_bytes,
          received_bytes - other.received_bytes,
          sent_between_copies - other.sent_between_copies,
          sent_within_secondary - other.sent_within_secondary,
          seconds - other.seconds,
          by_codec - other.by_codec};
}

EngineStatistics::Exchanged& EngineStatistics::Exchanged::operator+=(const Exchanged& other) {
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  sent_between_copies += other.sent_between_copies;
  sent_within_secondary += other.sent_within_secondary;
  seconds += other.seconds;
  by_codec += other.by_codec;
  return *this;
}

EngineStatistics::EngineStatistics(EngineParts& parts)
    : parts_(parts),
      times_(make_pass_times(parts.state.device(), parts.state.units().size(),
                             {.computed =
                                  [&parts] {
                                    return monotonic_seconds() - parts.gatherer.timer().seconds() -
                                           parts.reducer.timer().seconds() - parts.updater.seconds();
                                  },
                              .exchanged = [this] { return exchange_seconds(); }},
                             parts.options.timeline)),
      at_last_step_(exchanged()) {
  parts.executor.set_pass_times(times_.get());
}

double EngineStatistics::exchange_seconds() const {
  const WorkTimer &gathers = parts_.gatherer.timer(), &reductions = parts_.reducer.timer();
  return gathers.seconds() - gathers.waited() + reductions.seconds() - reductions.waited();
}

EngineStatistics::Exchanged EngineStatistics::exchanged() const {
  const Traffic traffic = parts_.unit_comms.traffic();
  return {traffic.sent_bytes,
          traffic.received_bytes,
          parts_.comms.sent_between_copies(),
          parts_.comms.sent_within_secondary(),
          exchange_seconds(),
          sent_by_codec(traffic.sent_bytes)};
}

// All bytes between copies have the same codec.
SentByCodec EngineStatistics::sent_by_codec(std::int64_t sent_bytes) const {
  const WireCodecs& wire = parts_.options.wire;
  const std::int64_t between = parts_.comms.sent_between_copies();
  SentByCodec sent;
  sent.copies[wire.outer_topk > 0 ? kSentTopk : static_cast<std::size_t>(wire.outer)] = between;
  sent.group[0] = sent_bytes - between;
  const CodedCommunicator* const coded = parts_.unit_comms.coded();
  if (coded == nullptr) return sent;
  const auto [gathers, sums] = coded->coded_sent();
  sent.group[0] -= gathers + sums;
  sent.group[static_cast<std::size_t>(wire.gather)] += gathers;
  sent.group[static_cast<std::size_t>(wire.reduce)] += sums;
  return sent;
}

void EngineStatistics::before_update() {
  for (const Tier tier : kAllTiers) memory_at_update_[tier] = parts_.ledger.held(tier);
}

void EngineStatistics::step_ends() {
  times_->step_ends();
  parts_.updater.tiles().read_times();
  const Exchanged now = exchanged();
  in_step_ = now - at_last_step_ - std::exchange(untraced_, {});
  in_step_.seconds = std::max(in_step_.seconds, 0.0);
  at_last_step_ = now;
  merged_in_last_step_ = false;
  if (parts_.disk != nullptr) disk_of_step_ = parts_.disk->traffic() - disk_at_last_step_;
  if (parts_.link != nullptr) link_of_step_ = parts_.link->traffic() - link_at_last_step_;
  count_tiers();
}

void EngineStatistics::step_restarts() {
  times_->step_restarts();
  at_last_step_ = exchanged();
  untraced_ = {};
  count_tiers();
}

void EngineStatistics::count_tiers() {
  if (parts_.disk != nullptr) disk_at_last_step_ = parts_.disk->traffic();
  if (parts_.link != nullptr) link_at_last_step_ = parts_.link->traffic();
}

StepProfile EngineStatistics::profile() const {
  StepProfile profile = times_->computed();
  const Schedule& schedule = parts_.executor.schedule();
  if (!schedule.entries.empty()) count_gathers(schedule, parts_.state.units().size(), profile);
  return profile;
}

// A pass that exchanges does not compute. Exchanges after the passes count for the backward pass.
PredictedStep EngineStatistics::predicted() const {
  StepProfile profile = this->profile();
  const double all = exchanged_in_step(), forward = std::min(times_->forward_waits(), all);
  profile.forward_seconds += forward;
  profile.backward_seconds += all - forward;
  return parts_.placer.predicted(parts_.state.placement(), profile);
}

// The host's waits for a device are no exchange. The device's lanes measure their waits, including waits for lower
// tiers.
double EngineStatistics::exchanged_in_step() const {
  const std::optional<DevicePasses> passes = times_->of_device();
  if (!passes) return in_step_.seconds;
  if (parts_.comms.run.world() == 1) return 0;
  return std::max(0.0, passes->waited_seconds - link_of_step_.waited_seconds - disk_of_step_.waited_seconds);
}

WorkSeconds EngineStatistics::work_seconds() const {
  return {parts_.gatherer.timer().seconds(), parts_.reducer.timer().seconds(),
          parts_.updater.seconds() + parts_.updater.tiles().device_seconds(), parts_.unit_comms.waited_seconds()};
}

WorkSeconds EngineStatistics::take_work_seconds() {
  const WorkSeconds now = work_seconds();
  const WorkSeconds since{now.gather - taken_.gather, now.reduce - taken_.reduce, now.update - taken_.update,
                          now.wait - taken_.wait};
  taken_ = now;
  return since;
}

void EngineStatistics::add_to(EngineReport& report) const {
  const Ledger& ledger = parts_.ledger;
  const EngineComms& comms = parts_.comms;
  report.world = comms.run.world();
  report.rank = comms.run.rank();
  report.stage = parts_.options.stage;
  report.copies.number = comms.mesh.copies;
  report.updated_meanwhile_seconds = parts_.updater.meanwhile_seconds();
  report.transport = std::string(comms.run.transport());
  report.memory = memory_at_update_;
  for (const Tier tier : kAllTiers) {
    report.peak_memory[tier] = ledger.peak(tier);
    report.peak_memory_bytes[tier] = ledger.peak_total(tier);
    report.state_bytes[tier] = ledger.held(tier).state();
  }
  report.requests_per_step.disk = disk_of_step_;
  report.link_per_step = link_of_step_;
  report.disk = parts_.disk == nullptr ? "" : parts_.disk->describe();
  report.sent_bytes_per_step = in_step_.sent_bytes;
  report.sent_by_codec = in_step_.by_codec;
  report.received_bytes_per_step = in_step_.received_bytes;
  report.copies.sent_bytes_per_step = in_step_.sent_between_copies;
  if (parts_.options.local) report.outer = outer_report();
  const Schedule& schedule = parts_.executor.schedule();
  if (!schedule.entries.empty()) {
    const ScheduleCost cost = simulate(schedule, parts_.state.units(), comms.mesh.shard, spec_of(*parts_.rule));
    const WireCodec codec = parts_.state.placement().wire.outer;
    report.copies.planned_sent_bytes = num_crossings(comms.mesh, comms.copy_number(), codec) * cost.crossing_bytes;
    report.planned_sent_bytes = cost.sent_bytes + report.copies.planned_sent_bytes;
    report.secondary = secondary_report(cost);
  }
  report.rates = parts_.placer.rates();
  report.profile = profile();
  report.device_passes = times_->of_device();
  report.predicted = predicted();
  add_formulas(report);
}

SecondaryReport EngineStatistics::secondary_report(const ScheduleCost& planned) const {
  const int group = parts_.options.secondary_group, shard = parts_.comms.mesh.shard;
  if (group == 0) return {};
  const std::int64_t within = in_step_.sent_within_secondary;
  const auto between = [&](std::int64_t over_all) { return sent_between_groups(over_all, shard, group); };
  return {.group = group,
          .sent_bytes_per_step = within,
          .planned_sent_bytes = planned.part_sent_bytes,
          .sent_between_groups = between(in_step_.sent_bytes - in_step_.sent_between_copies - within),
          .planned_sent_between_groups = between(planned.sent_bytes - planned.part_sent_bytes)};
}

OuterReport EngineStatistics::outer_report() const {
  const Mesh& mesh = parts_.comms.mesh;
  const LocalSteps& local = *parts_.options.local;
  std::vector<Unit> units;
  for (const int unit :
       units_of_fragment(parts_.state.units(), fragment_ < 0 ? 1 : local.fragments, std::max(fragment_, 0)))
    units.push_back(parts_.state.unit(unit));
  const OuterBytes planned = outer_bytes(units, mesh, parts_.state.placement());
  OuterReport report{
      .local_steps = local.steps,
      .fragments = local.fragments,
      .overlap = local.overlap,
      .steps = num_outer_steps_,
      .in_last_step = merged_in_last_step_,
      .sent_bytes = of_outer_step_.sent_bytes,
      .sent_between_copies = of_outer_step_.sent_between_copies,
      .sent_by_codec = of_outer_step_.by_codec,
      .planned_sent_bytes = planned.total(),
      .planned_sent_between_copies = planned.between_copies,
      .so_far = {of_outer_steps_.sent_bytes, of_outer_steps_.sent_between_copies, of_outer_steps_.by_codec}};
  for (const Unit& unit : units)
    report.formula_bytes += outer_formula_bytes(used_numel(unit), mesh, parts_.options.wire);
  return report;
}

void EngineStatistics::add_formulas(EngineReport& report) const {
  const Placement& placement = parts_.state.placement();
  const int shard = parts_.comms.mesh.shard;
  for (const ParamSpec& spec : parts_.specs) {
    const auto size = static_cast<double>(size_of(spec.dtype)), numel = static_cast<double>(spec.numel());
    report.num_parameters += spec.numel();
    if (!spec.trainable) {
      report.state_formula_bytes += numel * size / (placement.parameter_sharded ? shard : 1);
      continue;
    }
    if (placement.delayed_update)  // the waiting gradient
      report.state_formula_bytes += numel * (placement.fp32_gradient() ? 4.0 : size) / shard;
    report.state_formula_bytes += static_cast<double>(placement.num_partial_sums()) * numel * sizeof(float) /
                                  (placement.sums_leaves_here() ? 1 : shard);
    report.sent_formula_bytes += sent_formula_bytes(spec.numel(), shard, placement, spec.dtype);
    report.copies.sent_formula_bytes += sent_between_copies_formula_bytes(spec.numel(), shard, placement);
  }
  report.sent_formula_bytes += report.copies.sent_formula_bytes;
  const OptimizerSpec rule = spec_of(*parts_.rule);
  for (const Unit& unit : parts_.state.units()) {
    report.padding_bytes += padding_numel(unit, shard) * static_cast<std::int64_t>(size_of(unit.dtype));
    if (!unit.trainable) continue;
    const std::int64_t numel = used_numel(unit);
    report.state_formula_bytes +=
        state_formula_bytes(numel, shard, parts_.options.stage, unit.dtype, rule, unit.matrices()) +
        static_cast<double>(factor_bytes(unit, rule));
    report.sent_formula_bytes += update_sent_formula_bytes(unit, shard, placement);
  }
}

}  // namespace zero
