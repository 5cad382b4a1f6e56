// first_limits(), learned_limits(): what a run with states off the device prints early: where they lie, and which
// resource bounds a step by the step model.
//
//   if (off_device(report)) {
//     progress.line(first_limits(report));                    // after attach()
//     progress.line(why_states_stay(report, offload));        // where the monitor would move them, and cannot; or ""
//   }
//   progress.line(learned_limits(report, step));              // after kProfileStep steps
//
// Local; values only.
#pragma once

#include <cstdint>
#include <string>

#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"

namespace zero {

bool off_device(const EngineReport& report);

// "states of a rank: 1.00 MiB on the device, 0 B on the host, 3.00 MiB on disk; at probed rates their transfers and
// updates take 41 ms a step, bound by disk" (no more than where they lie, where no rate is known)
std::string first_limits(const EngineReport& report);
// "step 3: with the model's computation 120 ms a step are expected, bound by compute; states of a rank: 1.00 MiB ..."
std::string learned_limits(const EngineReport& report, std::int64_t step);

std::string why_states_stay(const EngineReport& report, const OffloadOptions& offload);

}  // namespace zero
