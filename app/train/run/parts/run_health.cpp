#include "app/train/run/parts/run_health.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/torch/engine_control.h"

namespace zero {

RunHealth::RunHealth(const HealthOptions& options, std::int64_t max_skipped_steps, std::int64_t samples_per_step,
                     RunState& state, const RunFolder& folder, RunCheckpoints& checkpoints, RunLog& log)
    : options_(options),
      policy_(options),
      max_skipped_steps_(max_skipped_steps),
      samples_per_step_(samples_per_step),
      state_(state),
      folder_(folder),
      checkpoints_(checkpoints),
      log_(log) {}

bool RunHealth::judge(EngineOfRun engine, const StepReport& report) {
  ++num_judged_;
  const HealthAction action = policy_.after(report);
  if (!report.skipped) return false;
  if (report.reason == SkipReason::kOverflow) {
    log_.report(event_of(HealthAction::kSkip, state_.step, report, limits_));
    return false;
  }
  state_.skipped.push_back(state_.step);
  if (report.reason != SkipReason::kNonFinite) ++state_.spikes;
  const std::int64_t behind = state_.samples + options_.rewind_batches * samples_per_step_;
  HealthEvent event = event_of(action, state_.step, report, limits_);
  if (action == HealthAction::kSkip && num_skipped_in_a_row() >= max_skipped_steps_)
    stop(engine, event, fmt::format(", the last of {} skipped steps in a row", num_skipped_in_a_row()));
  return act(engine, std::move(event), behind);
}

std::int64_t RunHealth::num_skipped_in_a_row() const {
  std::int64_t count = 0;
  for (auto step = state_.skipped.rbegin(); step != state_.skipped.rend() && *step == state_.step - count; ++step)
    ++count;
  return count;
}

bool RunHealth::judge_replicas(EngineOfRun engine) {
  const ReplicaCheck check = compare_replicas(engine);
  if (check.same()) return false;
  return act(engine,
             {.action = options_.on_corruption,
              .step = state_.step,
              .reason = std::string(kReplicasDiffer),
              .detail = check.describe()},
             0);
}

ReplicaCheck RunHealth::compare_replicas(EngineOfRun engine) {
  if (options_.check_replicas == 0) return {};
  if (compared_ != num_judged_) replicas_ = engine.compare_replicas();
  compared_ = num_judged_;
  return replicas_;
}

bool RunHealth::act(EngineOfRun engine, HealthEvent event, std::int64_t samples) {
  if (event.action == HealthAction::kStop) stop(engine, event, "");
  const bool rewinds = event.action == HealthAction::kRewind;
  rewinds ? rewind(engine, std::move(event), samples) : log_.report(std::move(event));
  return rewinds;
}

void RunHealth::stop(EngineOfRun engine, const HealthEvent& event, const std::string& why) {
  log_.exchange(0);
  checkpoints_.finish(engine);
  HealthEvent stopped = event;
  stopped.action = HealthAction::kStop;
  log_.report(std::move(stopped));
  const auto saved = folder_.files().checkpoints.list();  // in-memory checkpoints are lost when the launcher ends
  throw Error(last_words(event, why, saved.empty() ? -1 : saved.front().step));
}

void RunHealth::rewind(EngineOfRun engine, HealthEvent event, std::int64_t samples) {
  log_.exchange(0);
  checkpoints_.finish(engine);
  if (checkpoints_.steps().empty()) stop(engine, event, ", and there is no checkpoint to return to");
  const auto [rewinds, spikes] = std::pair(state_.rewinds + 1, state_.spikes);
  take_newest_checkpoint(engine, state_.step);
  const bool again = state_.step == std::exchange(rewound_to_, state_.step);
  rewinds_here_ = again ? rewinds_here_ + 1 : 1;
  if (again) samples = std::max(samples, rewound_samples_);
  rewound_samples_ = samples;
  if (rewinds_here_ > options_.max_rewinds)
    stop(engine, event, fmt::format(", after {} rewinds to step {}", rewinds_here_ - 1, state_.step));
  state_.samples = std::max(state_.samples, samples);
  state_.rewinds = rewinds;
  state_.spikes = spikes;
  log_.take_back(state_.step);
  event.back_to = state_.step;
  event.samples = state_.samples;
  log_.report(std::move(event));
}

Resumed RunHealth::take_newest_checkpoint(EngineOfRun engine, std::int64_t newest) {
  std::optional<Resumed> resumed = checkpoints_.resume(engine, newest);
  if (!resumed) throw IoError(folder_.files().checkpoints.path().string(), "list", 0, "its checkpoints were removed");
  state_ = resumed->state;
  log_.history().restore(state_.losses, state_.grad_norms, state_.seconds);
  log_.resume_at(state_.step, state_.line);
  policy_.restore(state_.losses, state_.grad_norms, state_.skipped);
  return std::move(*resumed);
}

}  // namespace zero
