#include "app/train/run/parts/run_meter.h"

#include <algorithm>
#include <span>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/process/clock.h"
#include "zero/base/process/process_memory.h"

#include "app/report/files/rank_values.h"
#include "app/train/limits.h"
#include "app/train/machine/machine_peak.h"

namespace zero {
namespace {

// A prediction is compared with medians of later steps.
static_assert(kWarmupSteps >= kProfileStep);

// Some sandboxes have no smaps_rollup. The report then has 0, and the run continues.
std::int64_t proportional_or_zero() {
  try {
    return proportional_bytes();
  } catch (const IoError& error) {
    ZERO_LOG(info, "steady_pss is not known: {}", error.what());
    return 0;
  }
}

}  // namespace

void RunMeter::begin(const EngineReport& engine, std::int64_t steps_to_come, bool predicts) {
  predicts_ = predicts;
  engine_ = engine;
  steps_to_come_ = steps_to_come;
}

SentBytes RunMeter::sent_by_outer_steps(const OuterReport& outer) {
  const SentBytes since = outer.so_far - by_outer_steps_;
  by_outer_steps_ = outer.so_far;
  return since;
}

SentBytes RunMeter::merged(const OuterReport& outer) {
  engine_.outer = outer;
  const SentBytes since = sent_by_outer_steps(outer);
  if (sent_.empty()) sent_.emplace_back();
  SentInSteps& sent = sent_.back().sent;
  sent.total += since.total;
  sent.between_copies += since.between_copies;
  return since;
}

void RunMeter::take_back(std::int64_t step, const SentInSteps& saved) {
  while (!sent_.empty() && sent_.back().step > step) sent_.pop_back();
  if (sent_.empty()) start_at(step, saved);
}

void RunMeter::complete(StepMetrics& metrics, const EngineReport& engine) {
  engine_ = engine;
  activation_offload_.end_step();
  if (engine.device_passes) {  // the host's times only measure the queueing of the passes
    metrics.forward = engine.device_passes->forward_seconds;
    metrics.backward = engine.device_passes->backward_seconds;
  }
  metrics.memory = engine.memory;
  metrics.sent_bytes = engine.sent_bytes_per_step;
  if (engine.copies.number > 1) metrics.sent_between_copies = engine.copies.sent_bytes_per_step;
  if (engine.secondary.group > 0) metrics.sent_between_groups = engine.secondary.sent_between_groups;
  metrics.mine.add(engine.sent_by_codec);
  add_sent(metrics, sent_by_outer_steps(engine.outer));
  const SentInSteps before = sent();
  sent_.push_back({.step = metrics.step,
                   .sent = {.total = before.total + metrics.sent_bytes,
                            .between_copies = before.between_copies + metrics.sent_between_copies.value_or(0)}});
  metrics.mine.steps = 1;
  metrics.mine.waited_seconds = metrics.served ? metrics.served->waited_seconds : metrics.work.wait;
  const LinkTraffic link = engine.link_per_step + activation_offload_.link();
  double busy_seconds = 0, waited_seconds = 0;
  for (const Tier tier : kRequestTiers) {
    busy_seconds += engine.requests_per_step[tier].busy_seconds;
    waited_seconds += engine.requests_per_step[tier].waited_seconds;
  }
  if (busy_seconds > 0 || link.busy_seconds > 0 || off_device(engine))
    metrics.transfers = {.requests = engine.requests_per_step, .link = link};
  steps_.add(metrics, waited_seconds + link.waited_seconds + activation_offload_.disk().waited_seconds);
  last_seconds_ = metrics.seconds;
}

void RunMeter::count(std::int64_t step, const Say& say) {
  ++num_steps_;
  if (num_steps_ == kProfileStep && predicts_) {
    predicted_ = engine_.predicted;
    slow_.expect(predicted_.total());
    replans_then_ = engine_.replans;
    if (off_device(engine_)) say(learned_limits(engine_, step));
  }
  if (num_steps_ == 1) process_.startup_s = boot_seconds() - process_start_seconds();
  if (num_steps_ == std::min<std::int64_t>(steps_to_come_, kWarmupSteps)) {
    process_.steady_rss = resident_bytes();
    process_.steady_pss = proportional_or_zero();
  }
  if (slow_.count(last_seconds_)) say(slow_.note(step, machine_load(), threads_));
}

RankReport RunMeter::rank_report() const {
  RankReport rank = process_;
  rank.peak_rss = peak_resident_bytes();
  rank.memory = engine_.memory;
  rank.peak_memory = engine_.peak_memory;
  rank.peak_memory_total = engine_.peak_memory_bytes;
  rank.sent_bytes_per_step = engine_.sent_bytes_per_step;
  rank.received_bytes_per_step = engine_.received_bytes_per_step;
  rank.planned_sent_bytes = engine_.planned_sent_bytes;
  rank.state_formula_bytes = engine_.state_formula_bytes;
  rank.sent_formula_bytes = engine_.sent_formula_bytes;
  rank.sent_between_copies_per_step = engine_.copies.sent_bytes_per_step;
  rank.outer_sent_between_copies = engine_.outer.sent_between_copies;
  rank.sent_bytes_total = sent().total;
  rank.sent_between_copies_total = sent().between_copies;
  rank.sent_within_secondary_per_step = engine_.secondary.sent_bytes_per_step;
  rank.sent_between_groups_per_step = engine_.secondary.sent_between_groups;
  rank.transfers = steps_.transfers();
  activation_offload_.add_to(rank);
  rank.peak_flops = probe_matmul_flops(place_, probed_);
  return rank;
}

void RunMeter::fill(RunReport& report, Communicator& comm) const {
  const RankReport mine = rank_report();
  for (const auto& rank : gather_ranks<RankReport>(comm, std::span(&mine, 1))) report.ranks.push_back(rank.front());
  report.engine = engine_;
  report.profile = steps_.median();
  if (predicts_ && steps_.past_warmup() && engine_.replans == replans_then_) report.predicted = predicted_;
}

}  // namespace zero
