// HealthEvent: an action of a run's health rules, for the user and for metrics.jsonl.
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
  std::int64_t step = 0;     // the bad step, counted from 1
  std::int64_t back_to = 0;  // for a rewind: the step of the checkpoint
  std::int64_t samples = 0;  // for a rewind: samples drawn so far, including those that are left out
  std::string reason;        // "not finite", "loss spike", "norm spike", kReplicasDiffer
  std::string detail;        // the parameter or rank at fault, if known
  // Loss and norm of the step, and the limit that one of them exceeded. Unknown values are NaN or infinite.
  double loss = std::numeric_limits<double>::quiet_NaN();
  double grad_norm = std::numeric_limits<double>::quiet_NaN();
  double limit = std::numeric_limits<double>::infinity();
};

// Returns the event of a refused step.
HealthEvent event_of(HealthAction action, std::int64_t step, const StepReport& report, const StepLimits& limits);

// Returns the cause, for example "loss 93.1, beyond 3.2".
std::string cause(const HealthEvent& event);
std::string describe(const HealthEvent& event);
// Returns the last message of a run that is stopped, although `event.action` is the rule's action. It has the cause,
// `why` the run ends, the step from which it can be resumed, and a hint what to check. `saved`: the step of the last
// checkpoint; -1: none.
std::string last_words(const HealthEvent& event, std::string_view why, std::int64_t saved);
// Returns one line, without the line break. Numbers that are not finite become null. For a rewind, "step" is the step
// to which the run returned, and "from" the bad step. So the line is removed only if the run returns to a step before
// "step".
std::string to_json_line(const HealthEvent& event);

}  // namespace zero
