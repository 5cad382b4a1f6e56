#include "zero/engine/place/placer.h"

#include <algorithm>
#include <limits>
#include <variant>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/text/bytes.h"
#include "zero/comm/collectives.h"
#include "zero/device/device.h"
#include "zero/engine/options/same_options.h"
#include "zero/engine/place/device_probe.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/engine/place/rate_probe.h"
#include "zero/engine/place/stage_cost.h"
#include "zero/plan/units/estimate.h"

namespace zero {
namespace {

constexpr std::int64_t kRoundingBytes = std::int64_t{64} << 10;  // of a unit: one block of each state
constexpr double kWorthMoving = 0.98;                            // a move must shorten a step to this part

// Returns whether the placement is automatic.
bool is_ours(const AttachOptions& options) {
  return options.offload.automatic && options.offload.fractions.on_device();
}

Placement on_its_device(Placement placement, const EngineHost& host) {
  placement.updated_elsewhere = host.updated_elsewhere;
  placement.linked = host.open_link != nullptr;
  placement.device_is_apart = host.free_device_bytes != nullptr || host.device_is_elsewhere ||
                              (host.device != nullptr && !host.device->host_readable());
  return placement;
}

}  // namespace

bool holds_all_whole(const AttachOptions& options, const Placement& placement, int world) {
  const bool on_device = std::ranges::all_of(placement.tiers, [](const UnitTiers& tiers) {
    return tiers.parameter.on_device() && tiers.gradient.on_device() && tiers.optimizer.on_device();
  });
  return world == 1 && on_device && placement.copies == 1 && placement.merged_copies == 1 &&
         !placement.delayed_update && !placement.updated_elsewhere && placement.wire.gather == WireCodec::kNone &&
         placement.wire.reduce == WireCodec::kNone && options.shards == Cut::kRange &&
         options.device_memory.kind != MemoryBudget::Kind::kMin;
}

void hold_all_whole(Placement& placement) {
  placement.parameter_sharded = placement.gradient_sharded = placement.optimizer_sharded = false;
}

Placement placement_of(const AttachOptions& options, const std::vector<Unit>& units, const Mesh& mesh) {
  Placement placement = placement_at(options, mesh, options.stage);
  spread_over_tiers(placement, units, mesh.shard, options.offload.fractions);
  return placement;
}

Placer::Placer(Communicator* comm, const Mesh& mesh, const AttachOptions& options, const std::vector<Unit>& units,
               const UpdateRule& rule, const EngineHost& host)
    : comm_(comm),
      options_(options),
      model_{.units = units,
             .world = mesh.shard,
             .placement = on_its_device(placement_of(options, units, mesh), host),
             .optimizer = spec_of(rule),
             .profile = host.profile},
      budgets_(comm, options, is_ours(options), host),
      placement_(model_.placement) {
  const OffloadOptions& offload = options.offload;
  const bool ours = is_ours(options);
  // With weighted shards each rank's own shard must fit, but rank 0 places states for all ranks as if shards were
  // equal.
  const bool may_choose = ours && options.shards != Cut::kWeighted;
  const bool chooses =
      may_choose && (options.offload.has_lower_room() || (budgets_.host_takes_the_rest() && !fits_device()));
  if (chooses || host.probes) {
    const bool known = agreed_least(comm, host.rates.update_numel > 0 ? 1 : 0) == 1;
    const std::int64_t disk_bytes = budgets_.room().disk > 0 ? budgets_.room().disk : offload.disk_memory;
    model_.rates =
        known ? host.rates : probe_rates(comm, offload, rule, options.threads, disk_bytes, host.seams.disk_seam);
    probe_device_rates(host);
    if (!known) budgets_.measure_memory();  // probing a slow disk takes long
  }
  if (chooses) choose();
  count_held();
  if (comm != nullptr && options.shards == Cut::kWeighted)
    refuse_alike(*comm, [this] { budgets_.require_memory(model_, placement_, held_); });
  else
    budgets_.require_memory(model_, placement_, held_);
  fixed_bytes_ = device_bytes(all_away());
  // States are written to a disk in tiles, so the host must have room for one tile of each state.
  const bool has_tiles = offload.host_memory.kind != MemoryBudget::Kind::kBytes ||
                         tile_bytes(units, mesh.shard, all_away(), spec_of(rule), 1) <= offload.host_memory.bytes;
  // A device with its own memory cannot free pages of an array in use. With a rule without sharded states (stages 0 and
  // 1, SGD without momentum), nothing may leave the device.
  const std::int64_t may_leave = state_bytes(units, mesh.shard, all_away(), spec_of(rule), kLastTier).total();
  const std::int64_t room = budgets_.room()[kLastTier];
  movable_ =
      may_choose && !model_.placement.device_is_apart && room > 0 && has_tiles && may_leave > 0 && may_leave <= room;
  const bool apart = host.device != nullptr && !host.device->host_readable();
  if (apart && !movable_ && holds_all_whole(options, placement_, mesh.shard)) {
    hold_all_whole(placement_);
    model_.placement = placement_;
  }
}

// Probes in each run, which is faster than finding an earlier result. If the states have 2 MiB, the probe takes no more
// memory than they do.
void Placer::probe_device_rates(const EngineHost& host) {
  if (host.device == nullptr || host.device->host_readable()) return;
  std::int64_t states = 0;
  for (const Tier tier : kAllTiers)
    states += state_bytes(model_.units, model_.world, placement_, model_.optimizer, tier).total();
  const std::int64_t most = kProbeParts * std::max(states / 2, kLeastProbe);
  const std::int64_t free = budgets_.device_is_apart() ? std::min(budgets_.room().device, most) : most;
  const DeviceRates mine = probe_device(*host.device, model_.optimizer, free);
  const auto least = [this](std::int64_t rate) { return static_cast<double>(agreed_least(comm_, rate)); };
  model_.rates.link_up = least(mine.up);
  model_.rates.link_down = least(mine.down);
  model_.rates.device_update_numel = host_updates(*host.device, options_) ? 0 : least(mine.update_numel);
}

void Placer::count_held() {
  for (const Tier tier : kAllTiers)
    held_[tier] = state_bytes(model_.units, model_.world, placement_, model_.optimizer, tier).total();
}

Placement Placer::all_away(Tier to) const {
  return away_from_device(placement_, model_.units, model_.world, to);
}

std::int64_t Placer::device_bytes(const Placement& placement) const {
  return state_bytes(model_.units, model_.world, placement, model_.optimizer, Tier::kDevice).total();
}

// Returns whether all states fit. If nothing can move later, gathers and staging need less than the budgets reserve.
bool Placer::fits_device() const {
  const auto working = [this](const Placement& placement) {
    return working_bytes(model_.units, model_.world, placement, /*min_budget=*/true);
  };
  const std::int64_t spared = options_.offload.disk.empty() ? working(all_away()) - working(placement_) : 0;
  return device_bytes(placement_) <= budgets_.of_states(model_, /*min_budget=*/true).device + spared;
}

// Returns the least budget of the device: the rest that other tiers leave, rounded up by some blocks of each unit.
TierBudgets Placer::least_of_device() const {
  TierBudgets least = budgets_.of_states(model_, /*min_budget=*/true);
  const std::int64_t left = device_bytes(placement_) - (least.total() - least.device);
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
  const TierBudgets minimum = budgets_.of_states(model_, /*min_budget=*/true),
                    roomy = budgets_.of_states(model_, /*min_budget=*/false);
  if (!options_.offload.has_lower_room() && minimum.device < device_bytes(all_away())) {
    placement_ = all_away(Tier::kHost);  // the engine then names the least
    return;
  }
  // If there is a choice, room for gathered units is worth more than room for states.
  const std::int64_t states = state_bytes(model_.units, model_.world, placement_, model_.optimizer).total();
  if (!options_.offload.has_lower_room() && states > minimum.device + minimum.host) {
    const bool automatic = options_.device_memory.kind == MemoryBudget::Kind::kAuto;
    throw ConfigError("zero.device_memory", automatic ? "auto" : format_bytes(options_.device_memory.bytes),
                      fmt::format("the states of a rank take {}; this budget has room for {}, and the host for {}",
                                  format_bytes(states), format_bytes(minimum.device), format_bytes(minimum.host)),
                      "set a disk for the rest (zero.disk = [\"/path\"]), or use more ranks or a higher stage");
  }
  const bool is_room = roomy.device >= 0 && states <= roomy.total();
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
  std::vector<UnitTiers> tiers = best_placement(model_, budgets, budgets_.free_disk()).tiers;
  // Other processors may round the programme differently, so rank 0's result counts.
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
  TierBudgets budgets = *chosen_within_;
  budgets.device = held_.device;
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
    } catch (const ConfigError&) {  // the states only just fit, so no blocks can move
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
