#include "zero/engine/placer.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/base/machine.h"
#include "zero/comm/collectives.h"
#include "zero/engine/budget.h"
#include "zero/engine/rate_probe.h"
#include "zero/memory/disk_room.h"
#include "zero/memory/disk_seam.h"
#include "zero/plan/estimate.h"
#include "zero/plan/partition.h"

namespace zero {
namespace {

constexpr std::int64_t kRoundingBytes = std::int64_t{64} << 10;  // of a unit: a block of each state
constexpr double kWorthMoving = 0.98;                            // of a step's seconds: less is not worth it
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 2;

// What the device's budget leaves free of the machine is the host's (docs/decisions/0014).
bool host_takes_the_rest(const EngineOptions& options) {
  return options.offload.host_memory.kind == MemoryBudget::Kind::kAuto &&
         options.device_memory.kind == MemoryBudget::Kind::kBytes;
}

bool names_lower_tiers(const EngineOptions& options) {
  const OffloadOptions& offload = options.offload;
  return !offload.disk.empty() || offload.host_memory.kind == MemoryBudget::Kind::kBytes;
}

bool keeps_fp32_sums(const EngineOptions& options) {
  if (!options.reduce_dtype) return false;
  if (*options.reduce_dtype != DType::kFloat32)
    throw ConfigError("reduce_dtype", std::string(name_of(*options.reduce_dtype)),
                      "sums are fp32, or of the type of parameters", "set reduce_dtype to fp32, or leave it out");
  if (options.accumulate > 1 && options.reduce == Reduce::kLast)
    throw ConfigError("reduce_dtype", "fp32",
                      "with reduce = \"last\" a rank sends its sum of micro-batches in the type of parameters",
                      "use reduce = \"each\", or leave reduce_dtype out");
  return true;
}

}  // namespace

std::int64_t free_memory(const EngineOptions& options) {
  return available_memory() / std::max(options.local_world, 1) / 5 * 4;
}

Placement placement_of(const EngineOptions& options, const std::vector<Unit>& units, const Mesh& mesh) {
  Placement placement = place(options.stage, options.reduce, options.accumulate, options.delayed_update);
  placement.fp32_sums = keeps_fp32_sums(options);
  set_copies(placement, mesh, options);
  placement.updated_elsewhere = options.updated_elsewhere;
  spread_over_tiers(placement, units, mesh.shard, options.offload.fractions);
  return placement;
}

Placer::Placer(Communicator* comm, const Mesh& mesh, const EngineOptions& options, const std::vector<Unit>& units,
               const UpdateRule& rule, const EngineSeams& seams)
    : comm_(comm),
      options_(options),
      seams_(seams),
      model_{.units = units, .world = mesh.shard, .optimizer = spec_of(rule)},
      placement_(placement_of(options, units, mesh)) {
  const int world = mesh.shard;
  model_.placement = placement_;
  model_.profile = seams.profile;
  free_bytes_ = comm == nullptr ? kUnlimited : agreed_least(comm, free_memory(options));
  const OffloadOptions& offload = options.offload;
  const bool ours = offload.automatic && offload.fractions.on_device();
  const auto states = [&](const Placement& placement, Tier tier) {
    return state_bytes(units, world, placement, spec_of(rule), tier).total();
  };
  if (ours && !offload.disk.empty())
    disk_budget_ = offload.disk_memory > 0 ? offload.disk_memory : agreed_least(comm_, room_on_disk());
  const bool chooses = ours && (names_lower_tiers(options) || (host_takes_the_rest(options) && !fits_device()));
  if (chooses || seams.probes) {
    const bool known = agreed_least(comm, seams.rates.update_numel > 0 ? 1 : 0) == 1;
    model_.rates = known ? seams.rates
                         : probe_rates(comm, offload, rule, options.threads,
                                       disk_budget_ > 0 ? disk_budget_ : offload.disk_memory, seams.disk_seam);
    // Others may have taken memory while a slow disk was probed.
    if (!known && comm != nullptr) free_bytes_ = agreed_least(comm, free_memory(options));
  }
  if (chooses) choose();
  count_held();
  require_memory();
  fixed_bytes_ = device_bytes(all_away());
  // What goes to a disk goes in tiles, and a host that cannot hold one of each state lets nothing go.
  const bool has_tiles = offload.host_memory.kind != MemoryBudget::Kind::kBytes ||
                         tile_bytes(units, world, all_away(), spec_of(rule), 1) <= offload.host_memory.bytes;
  movable_ = ours && disk_budget_ > 0 && has_tiles && states(all_away(), Tier::kDisk) <= disk_budget_;
}

void Placer::count_held() {
  const auto states = [&](Tier tier) {
    return state_bytes(model_.units, model_.world, placement_, model_.optimizer, tier).total();
  };
  held_ = {states(Tier::kDevice), states(Tier::kHost), states(Tier::kDisk)};
}

// A budget that is larger than this machine's memory may hold no more than that; one that what it will hold does not
// fill is as good as any.
void Placer::require_memory() const {
  const MemoryBudget& memory = options_.device_memory;
  if (comm_ == nullptr || memory.kind == MemoryBudget::Kind::kAuto) return;
  const auto& [units, world] = std::tie(model_.units, model_.world);
  const GatherBudget budget =
      gather_budget(memory, units, world, placement_, model_.optimizer, options_.stage, free_bytes_);
  std::int64_t all_units = 0;
  for (const Unit& unit : units) all_units += placement_.parameter_sharded ? gathered_bytes(unit, world) : 0;
  const std::int64_t least = held_.device + working_bytes(units, world, placement_, /*minimum=*/true);
  const std::int64_t most = budget.is_minimum()
                                ? least
                                : held_.device + staging_bytes(units, world, placement_, /*minimum=*/false) +
                                      std::min(budget.capacity_bytes, all_units);
  std::int64_t beside = held_.host + seams_.activation_bytes;
  if (held_.disk > 0) beside += tile_bytes(units, world, placement_, model_.optimizer, /*depth=*/1);
  const std::int64_t free = free_bytes_ / 4 * 5;
  if (most + beside <= free) return;
  const bool less_would_do = memory.kind == MemoryBudget::Kind::kBytes && least + beside <= free;
  throw ConfigError(
      "zero.device_memory", memory.kind == MemoryBudget::Kind::kMin ? "min" : format_bytes(memory.bytes),
      fmt::format("a rank would hold {} of this machine's memory beside activations, and {} are free for it",
                  format_bytes(most + beside), format_bytes(free)),
      less_would_do
          ? fmt::format("use {} B ({}) or less, so that activations have room, too", free - beside,
                        format_bytes(free - beside))
          : "the kernel would end it: name a disk (zero.disk), or use more ranks, on more hosts, or a higher stage");
}

// Where what the disk may hold is what is free there; nothing where it was asked for.
std::string Placer::disk_room() const {
  if (options_.offload.disk.empty() || options_.offload.disk_memory > 0) return "";
  return fmt::format("{} has room for {} B ({}) of a rank", fmt::join(options_.offload.disk, ", "), disk_budget_,
                     format_bytes(disk_budget_));
}

std::int64_t Placer::room_on_disk() const {
  const TimedCalls calls = DiskSeam::or_none(seams_.disk_seam).opening_calls(options_.offload.disk_timeout);
  const auto is_here = [&calls](const std::string& folder) { return is_folder_here(folder, calls); };
  if (comm_ == nullptr && !std::ranges::all_of(options_.offload.disk, is_here)) return kUnlimited;
  return room_on(options_.offload.disk, calls) / 10 * 9 / std::max(options_.local_world, 1);
}

Placement Placer::all_away(Tier to) const {
  return away_from_device(placement_, model_.units, model_.world, to);
}

// What states may take on each tier of this rank, beside gathered units and staging.
TierBudgets Placer::budgets(bool minimum) const {
  const OffloadOptions& offload = options_.offload;
  const Placement away = all_away();
  TierBudgets budgets{.disk = disk_budget_};
  const auto tiles = [&](int depth) {
    return offload.disk.empty() ? 0 : tile_bytes(model_.units, model_.world, away, model_.optimizer, depth);
  };
  if (offload.host_memory.kind == MemoryBudget::Kind::kBytes)
    budgets.host = std::max<std::int64_t>(offload.host_memory.bytes - tiles(/*depth=*/1), 0);
  // What autograd makes of the largest unit before anybody takes it over is nobody's: a gradient, and the sum where a
  // parameter is used twice.
  std::int64_t largest = 0;
  for (const Unit& unit : model_.units) largest = std::max(largest, gathered_bytes(unit, model_.world));
  if (host_takes_the_rest(options_))
    budgets.host = std::max<std::int64_t>(free_bytes_ - options_.device_memory.bytes - seams_.activation_bytes -
                                              tiles(OffloadTiers::kDefaultDepth) - 2 * largest,
                                          0);
  const std::int64_t working = working_bytes(model_.units, model_.world, away, minimum);
  if (options_.device_memory.kind == MemoryBudget::Kind::kBytes) {
    budgets.device = options_.device_memory.bytes - working;
    return budgets;
  }
  // Device and host are both main memory: what the host may take is not free for the device.
  const std::int64_t host = offload.host_memory.kind == MemoryBudget::Kind::kBytes ? offload.host_memory.bytes
                                                                                   : tiles(OffloadTiers::kDefaultDepth);
  budgets.device = free_bytes_ - host - seams_.activation_bytes - working - 2 * largest;
  return budgets;
}

TierBudgets Placer::agreed(TierBudgets budgets) const {
  return {agreed_least(comm_, budgets.device), agreed_least(comm_, budgets.host), agreed_least(comm_, budgets.disk)};
}

std::int64_t Placer::device_bytes(const Placement& placement) const {
  return state_bytes(model_.units, model_.world, placement, model_.optimizer, Tier::kDevice).total();
}

// Where nothing can move later, less is gathered and staged than budgets() sets aside.
bool Placer::fits_device() const {
  const auto working = [this](const Placement& placement) {
    return working_bytes(model_.units, model_.world, placement, /*minimum=*/true);
  };
  const std::int64_t spared = options_.offload.disk.empty() ? working(all_away()) - working(placement_) : 0;
  return device_bytes(placement_) <= agreed(budgets(true)).device + spared;
}

// As little as the other tiers leave to the device, to some blocks of each unit.
TierBudgets Placer::least_of_device() const {
  TierBudgets least = agreed(budgets(true));
  const std::int64_t left = device_bytes(placement_) - least.host - least.disk;
  const auto rounding = static_cast<std::int64_t>(model_.units.size()) * kRoundingBytes;
  least.device = std::max(device_bytes(all_away()), left > 0 ? left + rounding : 0);
  return least;
}

void Placer::choose() {
  if (options_.device_memory.kind == MemoryBudget::Kind::kMin) {
    placement_.tiers = within(least_of_device());
    return;
  }
  if (fits_device()) return;
  const TierBudgets minimum = agreed(budgets(true)), roomy = agreed(budgets(false));
  if (!names_lower_tiers(options_) && minimum.device < device_bytes(all_away())) {
    placement_ = all_away(Tier::kHost);  // the engine says what is the least then
    return;
  }
  // Room for units that stay gathered is worth more than room for states, if there is a choice.
  const std::int64_t states = state_bytes(model_.units, model_.world, placement_, model_.optimizer).total();
  if (!names_lower_tiers(options_) && states > minimum.device + minimum.host) {
    throw ConfigError("zero.device_memory", format_bytes(options_.device_memory.bytes),
                      fmt::format("a rank's states take {}; this budget has room for {} of them, and the host for {}",
                                  format_bytes(states), format_bytes(minimum.device), format_bytes(minimum.host)),
                      "name a disk for the rest (zero.disk = [\"/path\"]), use more ranks or a higher stage");
  }
  const bool is_room = roomy.device >= 0 && states <= roomy.device + roomy.host + roomy.disk;
  placement_.tiers = within(is_room ? roomy : minimum);
}

PredictedStep Placer::predicted(const Placement& placement, const StepProfile& profile) const {
  StepModel model = model_;
  model.profile = profile;
  std::vector<UnitTiers> tiers;
  for (const Unit& unit : model.units) tiers.push_back(tiers_of(placement, unit, model.world));
  return predict(model, tiers);
}

std::vector<UnitTiers> Placer::within(const TierBudgets& budgets) {
  chosen_within_ = budgets;
  std::vector<UnitTiers> tiers = best_placement(model_, budgets, disk_room()).tiers;
  // Processors of another kind may round the programme in another way: rank 0's counts.
  take_from_first(tiers);
  return tiers;
}

std::optional<std::vector<UnitTiers>> Placer::try_within(const TierBudgets& budgets) {
  std::vector<UnitTiers> tiers(model_.units.size());
  bool solved = true;
  if (comm_ == nullptr || comm_->rank() == 0) {
    try {
      tiers = best_placement(model_, budgets).tiers;
    } catch (const Error& error) {
      ZERO_LOG(warn, "states stay where they are: {}", error.what());
      solved = false;
    }
  }
  return take_if_solved(solved, std::move(tiers));
}

std::optional<std::vector<UnitTiers>> Placer::take_if_solved(bool solved, std::vector<UnitTiers> tiers) {
  if (agreed_least(comm_, solved ? 1 : 0) == 0) return std::nullopt;
  take_from_first(tiers);
  return tiers;
}

std::optional<std::vector<UnitTiers>> Placer::learn(const StepProfile& profile, int depth, std::int64_t spare) {
  model_.profile = profile;
  if (!chosen_within_) return std::nullopt;
  spare = agreed_least(comm_, spare);
  TierBudgets budgets{held_.device, chosen_within_->host, chosen_within_->disk};
  if (const MemoryBudget& host = options_.offload.host_memory; host.kind == MemoryBudget::Kind::kBytes) {
    const std::int64_t tiles = tile_bytes(model_.units, model_.world, all_away(), model_.optimizer, depth);
    budgets.host = std::max(held_.host, std::min(budgets.host, host.bytes - tiles));
  }
  budgets.host = std::min(budgets.host, held_.host + spare);
  std::vector<UnitTiers> tiers(model_.units.size());
  bool faster = true;
  if (comm_ == nullptr || comm_->rank() == 0) {
    try {
      const BestPlacement best = best_placement(model_, budgets);
      faster = best.predicted.total() < kWorthMoving * predicted(placement_, profile).total();
      tiers = best.tiers;
    } catch (const ConfigError&) {  // just what lies there fits, and no blocks of it can change places
      faster = false;
    } catch (const Error& error) {  // the other ranks wait for an answer
      ZERO_LOG(warn, "states stay where they are: {}", error.what());
      faster = false;
    }
  }
  return take_if_solved(faster, std::move(tiers));
}

void Placer::adopt(const std::vector<UnitTiers>& tiers) {
  placement_.tiers = tiers;
  count_held();
}

void Placer::take_from_first(std::vector<UnitTiers>& tiers) {
  if (comm_ == nullptr) return;
  broadcast(*comm_, std::as_writable_bytes(std::span(tiers)), 0, {.control = true});
}

}  // namespace zero
