#include <algorithm>

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/engine/engine.h"
#include "zero/plan/estimate.h"

namespace zero {
namespace {

// The flat range that gradients of the largest unit need before they are reduced, twice where one is reduced while the
// next fills.
std::int64_t staging_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool strict) {
  if (!placement.gradient_sharded && !placement.fp32_gradient()) return 0;
  std::int64_t largest = 0;
  for (const Unit& unit : units) {
    if (unit.trainable) largest = std::max(largest, gathered_bytes(unit, world));
  }
  return largest * (strict ? 1 : 2);
}

std::int64_t largest_gather(const std::vector<Unit>& units, int world, const Placement& placement) {
  if (!placement.parameter_sharded) return 0;
  std::int64_t largest = 0;
  for (const Unit& unit : units) largest = std::max(largest, gathered_bytes(unit, world));
  return largest;
}

}  // namespace

GatherBudget gather_budget(const DeviceMemory& memory, const std::vector<Unit>& units, int world,
                           const Placement& placement, int num_moments, int stage, std::int64_t free_bytes) {
  if (memory.kind == DeviceMemory::Kind::kMin) return {GatherBudget::kStrict};
  const bool automatic = memory.kind == DeviceMemory::Kind::kAuto;
  const std::int64_t budget = automatic ? free_bytes : memory.bytes;
  const auto needed_at = [&](const Placement& where, bool strict) {
    return state_bytes(units, world, where, num_moments).total() + staging_bytes(units, world, where, strict) +
           largest_gather(units, world, where);
  };
  const std::int64_t least = needed_at(placement, true);
  if (budget < least) {
    std::string remedy = fmt::format("stage {} on {} ranks needs at least {} B a rank ({}), or set it to \"min\"",
                                     stage, world, least, format_bytes(least));
    if (stage < 3) {
      const Placement cheaper =
          place(stage + 1, placement.reduce_each ? Reduce::kEach : Reduce::kLast, placement.accumulate);
      remedy += fmt::format("; stage {} needs {}", stage + 1, format_bytes(needed_at(cheaper, true)));
    } else {
      remedy += "; more ranks need less each";
    }
    throw ConfigError("zero.device_memory", automatic ? "auto" : format_bytes(budget),
                      automatic ? fmt::format("only {} are free", format_bytes(budget)) : "too small", remedy);
  }
  // What is left after state and staging holds gathered units; below twice the staging the engine keeps to one unit at
  // a time.
  const std::int64_t capacity = budget - state_bytes(units, world, placement, num_moments).total() -
                                staging_bytes(units, world, placement, false);
  if (capacity < largest_gather(units, world, placement)) return {GatherBudget::kStrict};
  return {capacity};
}

}  // namespace zero
