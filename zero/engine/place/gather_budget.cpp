#include "zero/engine/place/gather_budget.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/process/pages.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/outer/outer_exchange.h"
#include "zero/engine/outer/outer_sum.h"
#include "zero/engine/reduce/gradient_sum.h"
#include "zero/engine/states/tile_stream.h"
#include "zero/engine/update/factor_sums.h"
#include "zero/engine/update/matrix_directions.h"
#include "zero/engine/wire/gradient_staging.h"
#include "zero/engine/wire/unit_wire.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/secondary.h"

namespace zero {
namespace {

std::string lacks(std::int64_t bytes) {
  return fmt::format("too small by {} B ({})", bytes, format_bytes(bytes));
}

std::int64_t largest_gather(const std::vector<Unit>& units, int world, const Placement& placement) {
  if (!placement.parameter_sharded) return 0;
  std::int64_t largest = 0;
  for (const Unit& unit : units) largest = std::max(largest, gathered_bytes(unit, world));
  return largest;
}

// Returns the bytes of a gather's block while a scattered unit's parameters are copied out of it.
std::int64_t put_together_bytes(const std::vector<Unit>& units, int world, const Placement& placement) {
  if (!placement.parameter_sharded) return 0;
  std::int64_t largest = 0;
  for (const Unit& unit : units)
    if (unit.scattered) largest = std::max(largest, gathered_bytes(unit, world));
  return largest;
}

// The run's last outer step sums one unit at a time, when no fragment is in exchange.
std::int64_t outer_bytes_of(const std::vector<Unit>& units, int world, const Placement& placement) {
  const std::int64_t at_once = OuterSum::bytes(units, world, placement);
  return placement.outer_overlap ? std::max(at_once, OuterExchange::bytes(units, world, placement)) : at_once;
}

// Returns the bytes that a rank needs on the device if one unit is gathered at a time, secondary parts included.
std::int64_t least_bytes(const std::vector<Unit>& units, int world, const Placement& placement,
                         const OptimizerSpec& spec) {
  return state_bytes(units, world, placement, spec, Tier::kDevice).total() +
         staging_bytes(units, world, placement, /*min_budget=*/true) + largest_gather(units, world, placement) +
         secondary_bytes(units, world, placement);
}

// Returns the remedy if a rank has less than `least` bytes on the device.
std::string remedy_of_budget(const std::vector<Unit>& units, int world, const Placement& placement,
                             const OptimizerSpec& spec, int stage, std::int64_t least) {
  std::string remedy = fmt::format("stage {} on {} needs at least {} B a rank ({})", stage, format_count(world, "rank"),
                                   least, format_bytes(least));
  if (placement.tiers.empty()) remedy += ", or set it to \"min\"";
  if (stage < 3) {
    Placement cheaper = at_stage(placement, stage + 1);
    if (!placement.tiers.empty()) cheaper = away_from_device(std::move(cheaper), units, world, Tier::kHost);
    const std::int64_t needed = least_bytes(units, world, cheaper, spec);
    return remedy + fmt::format("; stage {} needs {} B ({})", stage + 1, needed, format_bytes(needed));
  }
  remedy += "; more ranks need less each";
  if (state_bytes(units, world, placement, spec, Tier::kDevice).moment > 0)
    remedy += ", and states can move from the device to a disk (zero.disk) or the host (zero.optimizer = {host = 1})";
  return remedy;
}

[[noreturn]] void refuse_budget(bool automatic, std::int64_t budget, std::int64_t least, const std::string& remedy) {
  throw ConfigError("zero.device_memory", automatic ? "auto" : format_bytes(budget),
                    automatic ? fmt::format("only {} are free", format_bytes(budget)) : lacks(least - budget), remedy);
}

}  // namespace

std::int64_t staging_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget) {
  const std::int64_t always =
      matrix_bytes(units, world, placement) + factor_staging_bytes(units, world) +
      put_together_bytes(units, world, placement) +
      (placement.device_is_apart ? 0 : GradientSum::blocks_of(units, world, placement, min_budget).bytes()) +
      outer_bytes_of(units, world, placement) + unit_wire_bytes(units, world, placement.wire, min_budget) +
      copies_wire_bytes(units, world, placement) + linked_bytes(units, world, placement, min_budget);
  if (!placement.gradient_sharded && !placement.fp32_gradient()) return always;
  std::int64_t largest_sum = 0;  // of a shard that is summed here and stored on another tier
  for (const Unit& unit : units) {
    if (!unit.trainable) continue;
    const TierSplit gradient = tiers_of(placement, unit, world).gradient;
    const std::int64_t element = placement.fp32_gradient() ? 4 : static_cast<std::int64_t>(size_of(unit.dtype));
    if (!gradient.on_device()) largest_sum = std::max(largest_sum, gradient.numel() * element);
  }
  return always + staging_limit(units, world, min_budget) + largest_sum * (min_budget ? 1 : 2);
}

std::int64_t secondary_bytes(const std::vector<Unit>& units, int world, const Placement& placement) {
  return placement.parameter_sharded ? secondary_bytes(units, world, placement.secondary_group) : 0;
}

std::int64_t working_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget) {
  return staging_bytes(units, world, placement, min_budget) + secondary_bytes(units, world, placement) +
         largest_gather(units, world, placement) * (min_budget ? 1 : 2);
}

std::int64_t tile_bytes(const std::vector<Unit>& units, int world, const Placement& placement,
                        const OptimizerSpec& spec, int depth) {
  bool bf16 = false;
  bool parameter = false, gradient = false, optimizer = false;
  for (const Unit& unit : units) {
    const UnitTiers tiers = tiers_of(placement, unit, world);
    parameter = parameter || tiers.parameter.numel_in_tiles() > 0;
    gradient = gradient || tiers.gradient.numel_in_tiles() > 0;
    optimizer = optimizer || tiers.optimizer.numel_in_tiles() > 0;
    bf16 = bf16 || unit.dtype != DType::kFloat32;
  }
  std::int64_t tiles = 0;  // tiles with four bytes an element
  const std::int64_t update = TileStream::most_tiles(depth);
  if (parameter) tiles += update + TileStream::most_tiles(OffloadTiers::prefetch_depth(depth));
  if (gradient)  // tiles of the update, and of offloads
    tiles += update + TileStream::most_written_tiles(OffloadTiers::prefetch_depth(depth));
  if (optimizer && bf16) tiles += update;
  const std::int64_t states =
      optimizer ? update * std::max(spec.value_bytes(), spec.value_bytes(/*matrices=*/true)) : 0;
  constexpr auto kPage = static_cast<std::int64_t>(kHugePageBytes);  // tiles are cut from huge pages
  return ((tiles * 4 + states) * TileStream::kTileNumel + kPage - 1) / kPage * kPage;
}

GatherBudget gather_budget(const MemoryBudget& memory, const std::vector<Unit>& units, int world,
                           const Placement& placement, const OptimizerSpec& spec, int stage, std::int64_t free_bytes,
                           bool or_least) {
  const std::int64_t parts = secondary_bytes(units, world, placement);
  const GatherBudget one_at_a_time{.capacity_bytes = GatherBudget::kMin, .keeps_parts = parts > 0};
  if (memory.kind == MemoryBudget::Kind::kMin) return one_at_a_time;
  const bool automatic = memory.kind == MemoryBudget::Kind::kAuto;
  const std::int64_t budget = automatic ? free_bytes : memory.bytes;
  const std::int64_t room = budget - state_bytes(units, world, placement, spec, Tier::kDevice).total() -
                            staging_bytes(units, world, placement, false);
  // If all units may stay gathered, a step gathers each only once, and would never use a part.
  std::int64_t all_units = 0;
  for (const Unit& unit : units) all_units += gathered_bytes(unit, world);
  const bool keeps = parts > 0 && room < all_units;
  const std::int64_t least = least_bytes(units, world, placement, spec) - (keeps ? 0 : parts);
  if (budget < least && automatic && or_least) return one_at_a_time;
  if (budget < least)
    refuse_budget(automatic, budget, least, remedy_of_budget(units, world, placement, spec, stage, least));
  // The rest is for gathered units. If the largest unit does not fit, one unit is gathered at a time (min).
  const std::int64_t capacity = room - (keeps ? parts : 0);
  if (capacity < largest_gather(units, world, placement)) return one_at_a_time;
  return {.capacity_bytes = capacity, .prefetched_numel = OffloadTiers::most_prefetched_numel(), .keeps_parts = keeps};
}

bool overlaps_updates(const Placement& placement, const std::vector<Unit>& units, int world, const OptimizerSpec& spec,
                      const OffloadOptions& options) {
  if (!placement.parameter_sharded) return false;
  const auto holds = [&](Tier tier) { return state_bytes(units, world, placement, spec, tier).total() > 0; };
  // With a device that has its own memory, the host has no other work.
  return options.link_bytes_per_second > 0 || std::ranges::any_of(kLowerTiers, [&](Tier tier) {
           return (!is_memory(tier) || placement.device_is_apart) && holds(tier);
         });
}

int tiles_ahead(const MemoryBudget& memory, const std::vector<Unit>& units, int world, const Placement& placement,
                const Placement& later, const OptimizerSpec& spec, std::int64_t free_bytes) {
  const std::int64_t state = state_bytes(units, world, placement, spec, Tier::kHost).total();
  const auto needed = [&](int depth) { return state + tile_bytes(units, world, later, spec, depth); };

  const bool automatic = memory.kind == MemoryBudget::Kind::kAuto;
  const std::int64_t least = state + tile_bytes(units, world, placement, spec, 1);
  const std::int64_t budget = automatic ? free_bytes : memory.kind == MemoryBudget::Kind::kMin ? least : memory.bytes;
  if (budget < least) {
    throw ConfigError("zero.host_memory", automatic ? "auto" : format_bytes(budget),
                      automatic ? fmt::format("only {} are free", format_bytes(budget)) : lacks(least - budget),
                      fmt::format("a rank needs {} B there ({}){}", least, format_bytes(least),
                                  state > 0 ? ": put less on the host and more on disk, or use more ranks"
                                            : " for transfers with the disk: allow that, or set it to \"min\""));
  }
  int depth = 1;
  while (depth < OffloadTiers::kDefaultDepth && needed(depth + 1) <= budget) ++depth;
  return depth;
}

void require_disk(const OffloadOptions& options, std::int64_t bytes) {
  if (bytes == 0) return;
  if (options.disk.empty()) {
    throw ConfigError("zero.disk", "[]",
                      fmt::format("{} are placed on disk, and no folder is set", format_bytes(bytes)),
                      "set zero.disk = [\"/path\"], with a folder on each disk");
  }
  if (options.disk_memory > 0 && bytes > options.disk_memory) {
    throw ConfigError(
        "zero.disk_memory", format_bytes(options.disk_memory), lacks(bytes - options.disk_memory),
        fmt::format("a rank places {} B there ({}): allow that, or put less on disk", bytes, format_bytes(bytes)));
  }
}

}  // namespace zero
