#include "zero/engine/placer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include <sys/stat.h>

#include "zero/base/error.h"
#include "zero/base/log.h"
#include "zero/base/machine.h"
#include "zero/engine/engine.h"
#include "zero/engine/rate_probe.h"
#include "zero/plan/estimate.h"
#include "zero/plan/partition.h"

namespace zero {
namespace {

constexpr std::int64_t kRoundingBytes = std::int64_t{64} << 10;  // of a unit: a block of each state
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max() / 2;

bool gives_lower_tiers(const OffloadOptions& offload) {
  return !offload.disk.empty() || offload.host_memory.kind == TierMemory::Kind::kBytes;
}

// What files of equal size in these folders can hold together; folders on one file system share its room.
std::int64_t room_on(const std::vector<std::string>& folders) {
  std::map<dev_t, std::int64_t> folders_on;
  const auto device_of = [](const std::string& folder) {
    struct stat status {};
    if (::stat(folder.c_str(), &status) != 0)
      throw ConfigError("zero.disk", folder, std::strerror(errno), "name a folder that exists");
    return status.st_dev;
  };
  for (const std::string& folder : folders) ++folders_on[device_of(folder)];
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const std::string& folder : folders) {
    const auto space = std::filesystem::space(folder);
    least = std::min(least, static_cast<std::int64_t>(space.available) / folders_on[device_of(folder)]);
  }
  return least * static_cast<std::int64_t>(folders.size());
}

}  // namespace

std::int64_t free_memory(const EngineOptions& options) {
  return available_memory() / std::max(options.local_world, 1) / 5 * 4;
}

Placement placement_of(const EngineOptions& options, const std::vector<Unit>& units, int world) {
  Placement placement = place(options.stage, options.reduce, options.accumulate, options.delayed_update);
  spread_over_tiers(placement, units, world, options.offload.fractions);
  return placement;
}

Placer::Placer(Communicator* comm, int world, const EngineOptions& options, const std::vector<Unit>& units,
               const UpdateRule& rule)
    : comm_(comm),
      options_(options),
      model_{.units = units, .world = world, .num_moments = rule.num_moments()},
      placement_(placement_of(options, units, world)) {
  model_.placement = placement_;
  free_bytes_ = comm == nullptr ? kUnlimited : agreed_least(comm, free_memory(options));
  const OffloadOptions& offload = options.offload;
  const bool ours = offload.automatic && offload.fractions.on_device();
  const auto states = [&](const Placement& placement, Tier tier) {
    return state_bytes(units, world, placement, rule.num_moments(), tier).total();
  };
  if (ours && !offload.disk.empty())
    disk_budget_ = offload.disk_memory > 0 ? offload.disk_memory : agreed_least(comm_, room_on_disk());
  const bool chooses = ours && gives_lower_tiers(offload);
  if (chooses || offload.probes) {
    const bool known = agreed_least(comm, offload.rates.update_numel > 0 ? 1 : 0) == 1;
    model_.rates = known ? offload.rates
                         : probe_rates(comm, offload, rule, options.threads,
                                       disk_budget_ > 0 ? disk_budget_ : offload.disk_memory);
  }
  if (chooses) choose();
  held_ = {states(placement_, Tier::kDevice), states(placement_, Tier::kHost), states(placement_, Tier::kDisk)};
  fixed_bytes_ = states(all_away(), Tier::kDevice);
  movable_ = ours && disk_budget_ > 0 && states(all_away(), Tier::kDisk) <= disk_budget_;
}

std::int64_t Placer::room_on_disk() const {
  const auto is_here = [](const std::string& folder) {
    std::error_code ignored;
    return std::filesystem::exists(folder, ignored);
  };
  if (comm_ == nullptr && !std::ranges::all_of(options_.offload.disk, is_here)) return kUnlimited;
  return room_on(options_.offload.disk) / 10 * 9 / std::max(options_.local_world, 1);
}

Placement Placer::all_away() const {
  Placement away = place(options_.stage, options_.reduce, options_.accumulate, options_.delayed_update);
  spread_over_tiers(away, model_.units, model_.world,
                    {.parameter = {.disk = away.parameter_sharded ? 1.0 : 0.0},
                     .gradient = {.disk = away.gradient_sharded ? 1.0 : 0.0},
                     .optimizer = {.disk = 1}});
  return away;
}

// What states may take on each tier of this rank, after what is gathered and staged.
TierBudgets Placer::budgets(bool strict) const {
  const OffloadOptions& offload = options_.offload;
  const Placement away = all_away();
  TierBudgets budgets{.disk = disk_budget_};
  const auto tiles = [&](int depth) {
    return offload.disk.empty() ? 0 : tile_bytes(model_.units, model_.world, away, model_.num_moments, depth);
  };
  if (offload.host_memory.kind == TierMemory::Kind::kBytes)
    budgets.host = std::max<std::int64_t>(offload.host_memory.bytes - tiles(/*depth=*/1), 0);
  const std::int64_t working = working_bytes(model_.units, model_.world, away, strict);
  if (options_.device_memory.kind == TierMemory::Kind::kBytes) {
    budgets.device = options_.device_memory.bytes - working;
    return budgets;
  }
  // Device and host are both main memory: what the host may take is not free for the device. Nor is what autograd makes
  // of the largest unit before anybody takes it over: a gradient, and the sum where a parameter is used twice.
  std::int64_t largest = 0;
  for (const Unit& unit : model_.units) largest = std::max(largest, gathered_bytes(unit, model_.world));
  const std::int64_t host = offload.host_memory.kind == TierMemory::Kind::kBytes ? offload.host_memory.bytes
                                                                                 : tiles(ShardedState::kDefaultDepth);
  budgets.device = free_bytes_ - host - working - 2 * largest;
  return budgets;
}

TierBudgets Placer::agreed(TierBudgets budgets) const {
  return {agreed_least(comm_, budgets.device), agreed_least(comm_, budgets.host), agreed_least(comm_, budgets.disk)};
}

// As little as the other tiers leave to the device, to some blocks of each unit.
TierBudgets Placer::least_of_device() const {
  TierBudgets least = agreed(budgets(true));
  const auto device = [this](const Placement& placement) {
    return state_bytes(model_.units, model_.world, placement, model_.num_moments, Tier::kDevice).total();
  };
  const std::int64_t left = device(placement_) - least.host - least.disk;
  const auto rounding = static_cast<std::int64_t>(model_.units.size()) * kRoundingBytes;
  least.device = std::max(device(all_away()), left > 0 ? left + rounding : 0);
  return least;
}

void Placer::choose() {
  if (options_.device_memory.kind == TierMemory::Kind::kMin) {
    placement_.tiers = within(least_of_device());
    return;
  }
  // Room for units that stay gathered is worth more than room for states, if there is a choice.
  const std::int64_t states = state_bytes(model_.units, model_.world, placement_, model_.num_moments).total();
  const TierBudgets strict = agreed(budgets(true)), roomy = agreed(budgets(false));
  if (states <= strict.device) return;
  const bool is_room = roomy.device >= 0 && states <= roomy.device + roomy.host + roomy.disk;
  placement_.tiers = within(is_room ? roomy : strict);
}

PredictedStep Placer::predicted(const Placement& placement, const StepProfile& profile) const {
  StepModel model = model_;
  model.profile = profile;
  std::vector<UnitTiers> tiers;
  for (const Unit& unit : model.units) tiers.push_back(tiers_of(placement, unit, model.world));
  return predict(model, tiers);
}

std::vector<UnitTiers> Placer::within(const TierBudgets& budgets) {
  std::vector<UnitTiers> tiers = best_placement(model_, budgets).tiers;
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
  if (agreed_least(comm_, solved ? 1 : 0) == 0) return std::nullopt;
  take_from_first(tiers);
  return tiers;
}

void Placer::take_from_first(std::vector<UnitTiers>& tiers) {
  if (comm_ == nullptr) return;
  comm_->broadcast(std::as_writable_bytes(std::span(tiers)), 0, {.control = true}).wait();
  comm_->drain();
}

}  // namespace zero
