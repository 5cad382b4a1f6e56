#include "zero/engine/place/budgets.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/engine/place/rate_probe.h"
#include "zero/memory/disk/disk_room.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

// No budget is larger, so the budgets of all tiers can be added up.
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / (kNumTiers + 1);

bool is_in_bytes(const MemoryBudget& budget) {
  return budget.kind == MemoryBudget::Kind::kBytes;
}

std::int64_t limited(std::int64_t bytes) {
  return std::min(bytes, kUnlimited);
}

}  // namespace

Budgets::Budgets(Communicator* comm, const AttachOptions& options, bool uses_disk, const EngineHost& host)
    : comm_(comm), options_(options), host_(host) {
  measure_memory();
  if (!uses_disk || options.offload.disk.empty()) return;
  const std::int64_t* const given = budget_bytes(options, Tier::kDisk);
  room_.disk = limited(given != nullptr ? *given : agreed_least(comm_, room_on_disk()));
}

void Budgets::measure_memory() {
  const bool is_here = comm_ != nullptr || host_.free_device_bytes != nullptr;
  const auto measure = [&](std::int64_t free, int ranks, std::int64_t beside = 0) {
    const std::int64_t mine = is_here ? share_of_free(free, ranks, beside) : kUnlimited;
    return options_.shards == Cut::kWeighted ? mine : agreed_least(comm_, mine);
  };
  room_.device = room_.host = measure(available_memory(), host_.local_world);
  if (host_.free_device_bytes != nullptr)
    room_.device = measure(host_.free_device_bytes(), host_.ranks_on_device, host_.beside_on_device);
}

std::int64_t Budgets::room_on_disk() const {
  const TimedCalls calls = DiskSeam::or_none(host_.seams.disk_seam).opening_calls(options_.offload.disk_timeout);
  const auto is_here = [&calls](const std::string& folder) { return is_folder_here(folder, calls); };
  if (comm_ == nullptr && !std::ranges::all_of(options_.offload.disk, is_here)) return kUnlimited;
  return free_disk().share(room_on(options_.offload.disk, calls));
}

FreeDisk Budgets::free_disk() const {
  FreeDisk disk{.ranks = std::max(host_.local_world, 1)};
  if (budget_bytes(options_, Tier::kDisk) == nullptr)
    disk.folders = fmt::format("{}", fmt::join(options_.offload.disk, ", "));
  return disk;
}

bool Budgets::host_takes_the_rest() const {
  return options_.offload.host_memory.kind == MemoryBudget::Kind::kAuto &&
         (is_in_bytes(options_.device_memory) || device_is_apart());
}

TierBudgets Budgets::of_states(const StepModel& model, bool min_budget) const {
  TierBudgets budgets = mine(model, min_budget);
  for (const Tier tier : kAllTiers) budgets[tier] = agreed_least(comm_, budgets[tier]);
  return budgets;
}

TierBudgets Budgets::mine(const StepModel& model, bool min_budget) const {
  const OffloadOptions& offload = options_.offload;
  const Placement away = away_from_device(model.placement, model.units, model.world, kLastTier);
  TierBudgets budgets{.disk = room_.disk};
  const auto tiles = [&](int depth) {
    return offload.disk.empty() ? 0 : tile_bytes(model.units, model.world, away, model.optimizer, depth);
  };
  for (const Tier tier : kLowerTiers) {
    const std::int64_t* const given = is_memory(tier) ? budget_bytes(options_, tier) : nullptr;
    const std::int64_t of_tiles = tier == Tier::kHost ? tiles(/*depth=*/1) : 0;
    if (given != nullptr) budgets[tier] = std::max<std::int64_t>(limited(*given) - of_tiles, 0);
  }
  // Gradients that autograd holds until the engine copies them: the largest unit's, and the sum for a parameter that is
  // used twice.
  std::int64_t largest = 0;
  for (const Unit& unit : model.units) largest = std::max(largest, gathered_bytes(unit, model.world));
  if (host_takes_the_rest()) {
    const std::int64_t device = device_is_apart() ? 0 : limited(options_.device_memory.bytes) + 2 * largest;
    budgets.host = std::max<std::int64_t>(
        room_.host - device - host_.activation_bytes.host - tiles(OffloadTiers::kDefaultDepth), 0);
  }
  const std::int64_t working = working_bytes(model.units, model.world, away, min_budget);
  if (is_in_bytes(options_.device_memory)) {
    budgets.device = limited(options_.device_memory.bytes) - working;
    return budgets;
  }
  // If device and host are both main memory, the host's budget is not free for the device.
  const std::int64_t host =
      is_in_bytes(offload.host_memory) ? limited(offload.host_memory.bytes) : tiles(OffloadTiers::kDefaultDepth);
  // else the operators' bytes include it
  const std::int64_t of_autograd = host_.beside_on_device > 0 ? 0 : 2 * largest;
  budgets.device = room_.device - (device_is_apart() ? 0 : host + host_.activation_bytes.host) -
                   host_.activation_bytes.device - working - of_autograd;
  return budgets;
}

void Budgets::require_memory(const StepModel& model, const Placement& placement, const TierBudgets& held) const {
  const MemoryBudget& memory = options_.device_memory;
  if (comm_ == nullptr || memory.kind == MemoryBudget::Kind::kAuto) return;
  const GatherBudget budget =
      gather_budget(memory, model.units, model.world, placement, model.optimizer, options_.stage, room_.device);
  std::int64_t all_units = 0;
  for (const Unit& unit : model.units) all_units += placement.parameter_sharded ? gathered_bytes(unit, model.world) : 0;
  const std::int64_t least = held.device + working_bytes(model.units, model.world, placement, /*min_budget=*/true);
  const std::int64_t most =
      budget.is_min() ? least
                      : held.device + staging_bytes(model.units, model.world, placement, /*min_budget=*/false) +
                            std::min(budget.capacity_bytes, all_units) +
                            (budget.keeps_parts ? secondary_bytes(model.units, model.world, placement) : 0);
  std::int64_t beside = held.host + host_.activation_bytes.host;
  if (held.disk > 0) beside += tile_bytes(model.units, model.world, placement, model.optimizer, /*depth=*/1);
  if (device_is_apart()) beside = 0;  // it is in another memory, within budgets.host
  beside += host_.activation_bytes.device;
  const std::int64_t free = host_.beside_on_device > 0 ? room_.device : room_.device / 4 * 5;
  if (most + beside <= free) return;
  const bool less_would_do = is_in_bytes(memory) && least + beside <= free;
  throw ConfigError("zero.device_memory", memory.kind == MemoryBudget::Kind::kMin ? "min" : format_bytes(memory.bytes),
                    fmt::format("beside activations a rank would hold {} of {} memory, and only {} are free for a rank",
                                format_bytes(most + beside), device_is_apart() ? "the device's" : "this machine's",
                                format_bytes(free)),
                    less_would_do
                        ? fmt::format("use {} B ({}) or less, which also leaves room for activations", free - beside,
                                      format_bytes(free - beside))
                        : fmt::format("{}set zero.disk, or use more ranks, on more machines, or a higher stage",
                                      device_is_apart() ? "" : "the kernel would end the process: "));
}

}  // namespace zero
