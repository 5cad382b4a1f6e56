// first_limits(), learned_limits(): lines about states off the device: their tiers, and what bounds a step.
//
//   if (off_device(report)) {
//     progress.line(first_limits(report));                    // after attach()
//     progress.line(why_states_stay(report, offload));        // if the monitor would move states but cannot; or ""
//   }
//   progress.line(learned_limits(report, step));              // after kProfileStep steps
//
// The step model computes which resource bounds a step (compute, disk, link). Local; values only.
#pragma once

#include <cstdint>
#include <string>

#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"

namespace zero {

bool off_device(const EngineReport& report);

// Returns "states of a rank: 1.00 MiB on the device, 0 B on the host, 3.00 MiB on disk; at probed rates their transfers
// and updates take 41 ms a step, bound by disk". If no rate is known, the line has only the tiers.
std::string first_limits(const EngineReport& report);
// Returns "step 3: with the model's computation 120 ms a step are expected, bound by compute; states of a rank: 1.00
// MiB ..."
std::string learned_limits(const EngineReport& report, std::int64_t step);

std::string why_states_stay(const EngineReport& report, const OffloadOptions& offload);

}  // namespace zero
