#include "app/train/limits.h"

#include <algorithm>

#include <fmt/format.h>

#include "zero/base/numbers/tier_bytes.h"
#include "zero/base/text/bytes.h"

namespace zero {
namespace {

std::int64_t states_on(const EngineReport& report, Tier tier) {
  return report.state_bytes[tier];
}

std::string describe_states(const EngineReport& report) {
  return "states of a rank: " + format_by_tier([&report](Tier tier) { return states_on(report, tier); });
}

}  // namespace

bool off_device(const EngineReport& report) {
  return std::ranges::any_of(kLowerTiers, [&report](Tier tier) { return states_on(report, tier) > 0; });
}

std::string first_limits(const EngineReport& report) {
  const PredictedStep& step = report.predicted;
  if (step.total() <= 0) return describe_states(report);
  return fmt::format("{}; at probed rates their transfers and updates take {} a step, bound by {}",
                     describe_states(report), format_seconds(step.total()), name_of(step.bound()));
}

std::string learned_limits(const EngineReport& report, std::int64_t step) {
  const PredictedStep& predicted = report.predicted;
  return fmt::format("step {}: with the model's computation {} a step are expected, bound by {}; {}{}", step,
                     format_seconds(predicted.total()), name_of(predicted.bound()), describe_states(report),
                     report.replans > 0 ? fmt::format(" ({} moved)", format_bytes(report.moved_bytes)) : ", as before");
}

std::string why_states_stay(const EngineReport& report, const OffloadOptions& offload) {
  if (report.movable || !offload.monitor.on) return "";
  return fmt::format("  they stay there, however much memory is free: {}",
                     !offload.fractions.on_device() ? "fractions say where (zero.parameter, gradient, optimizer)"
                     : offload.disk.empty()         ? "no disk is set (zero.disk)"
                                            : "zero.disk_memory has no room for all states that may leave the device, "
                                              "or zero.host_memory has no room for their tiles");
}

}  // namespace zero
