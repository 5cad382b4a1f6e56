// Prints schedules and actions as text.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "zero/plan/schedule/schedule.h"

namespace zero {
namespace {

// Lists the tiers that hold a part: "host and disk".
std::string tiers_text(const TierSplit& split, std::span<const Tier> among = kAllTiers) {
  std::string text;
  for (const Tier tier : among) {
    if (split.numel(tier) > 0) text += fmt::format("{}{}", text.empty() ? "" : " and ", name_of(tier));
  }
  return text;
}
std::string lower_tiers_text(const TierSplit& split) {
  return tiers_text(split, kLowerTiers);
}

// Describes an update: " on host (optimizer state on disk)". An element with any state off the device is updated on the
// host. The brackets name the states on tiers other than the update's, except states that are only on the device.
std::string update_text(const UnitTiers& lies) {
  const std::array<std::pair<const char*, TierSplit>, 3> states{
      {{"parameter", lies.parameter}, {"gradient", lies.gradient}, {"optimizer state", lies.optimizer}}};
  std::int64_t on_device = lies.optimizer.numel();
  for (const auto& [name, split] : states) {
    if (!split.on_device()) on_device = std::min(on_device, split.device);
  }
  const TierSplit runs{.device = on_device, .host = lies.optimizer.numel() - on_device};
  if (runs.host == 0) return "";
  std::string elsewhere;
  for (const auto& [name, split] : states) {
    if (split.on_device() || tiers_text(split) == tiers_text(runs)) continue;
    elsewhere += fmt::format("{}{} on {}", elsewhere.empty() ? "" : ", ", name, tiers_text(split));
  }
  return fmt::format(" on {}{}", tiers_text(runs), elsewhere.empty() ? "" : " (" + elsewhere + ")");
}

// Describes the sources of a gather, " within 4 ranks"; empty if they are all ranks.
std::string way_text(GatherWay way, const Placement& placement) {
  switch (way) {
    case GatherWay::kAll:
      break;
    case GatherWay::kAllAndKeep:
      return " and keep a part";
    case GatherWay::kParts:
      return fmt::format(" within {} ranks", placement.secondary_group);
  }
  return "";
}

}  // namespace

std::string describe(const Action& action, const std::vector<Unit>& units, const Placement& placement) {
  const Unit& unit = units.at(static_cast<std::size_t>(action.unit));
  const std::string& name = unit.name;
  // Only the tiers matter here, not the number of elements.
  const UnitTiers lies = tiers_of(placement, unit, /*world=*/1);
  switch (action.kind) {
    case ActionKind::kPrefetch:
      return fmt::format("prefetch {} from {}", name, lower_tiers_text(lies.parameter));
    case ActionKind::kGather:
      return "gather " + name + way_text(action.way, placement);
    case ActionKind::kGatherGradient:
      return "gather gradient of " + name;
    case ActionKind::kRelease:
      return "release " + name;
    case ActionKind::kReduce:
      return "reduce " + name;
    case ActionKind::kOffload:
      return fmt::format("offload {} to {}", name, lower_tiers_text(lies.gradient));
    case ActionKind::kUpdate:
      return "update " + name + update_text(lies);
  }
  return "";
}

std::string print_schedule(const Schedule& schedule, const std::vector<Unit>& units) {
  std::string text;
  const auto line = [&](const std::string& event, const std::vector<Action>& actions) {
    std::vector<std::string> words;
    for (const Action& action : actions) words.push_back(describe(action, units, schedule.placement));
    text += fmt::format("{:<32}{}{}\n", event, words.empty() ? "" : "| ", fmt::join(words, ", "));
  };
  for (const ScheduleEntry& entry : schedule.entries) {
    if (entry.event.kind == EventKind::kStep) {
      auto actions = entry.actions;
      actions.insert(actions.end(), schedule.step.begin(), schedule.step.end());
      line("step", actions);
    } else {
      line(describe(entry.event, units), entry.actions);
    }
  }
  return text;
}

}  // namespace zero
