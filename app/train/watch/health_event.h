// HealthEvent: something that a run's health rules did, for the user and for metrics.jsonl.
//
//   log.add(event);                      // {"step": 512, "event": "skipped", "reason": "loss spike", ...}
//   progress.line(describe(event));      // "step 512: loss 93.1, beyond 3.2: going on after step 500, ..."
//
// Values only.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "zero/engine/options/step_report.h"

#include "app/train/watch/health.h"

namespace zero {

constexpr std::string_view kReplicasDiffer = "replicas differ";

struct HealthEvent {
  HealthAction action = HealthAction::kSkip;
  double time = 0;           // seconds since 1970
  std::int64_t step = 0;     // the bad one, counted from 1
  std::int64_t back_to = 0;  // of a rewind: the step of the checkpoint
  std::int64_t samples = 0;  // of a rewind: drawn so far, those that are left out too
  std::string reason;        // "not finite", "loss spike", "norm spike", kReplicasDiffer
  std::string detail;        // the parameter, or the rank, that is to blame, where that is known
  // Of the step, and what it had to stay under; what is not known is NaN or infinite.
  double loss = std::numeric_limits<double>::quiet_NaN();
  double grad_norm = std::numeric_limits<double>::quiet_NaN();
  double limit = std::numeric_limits<double>::infinity();
};

// Of a refused step.
HealthEvent event_of(HealthAction action, std::int64_t step, const StepReport& report, const StepLimits& limits);

// "loss 93.1, beyond 3.2"
std::string cause(const HealthEvent& event);
std::string describe(const HealthEvent& event);
// Of a run that is stopped, where `event.action` was to be done: the cause and `why` it ends here, where it may go on
// (`saved`: the step of the last checkpoint; -1: there is none), and what to look at.
std::string last_words(const HealthEvent& event, std::string_view why, std::int64_t saved);
// One line, without the line break. Numbers that are not finite become null. A rewind's "step" is the one that the run
// is at again, and "from" the bad one: a line stays as long as what it tells of is part of the run.
std::string to_json_line(const HealthEvent& event);

}  // namespace zero
