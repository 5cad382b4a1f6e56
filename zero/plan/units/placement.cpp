#include "zero/plan/units/placement.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/plan/units/leaves.h"
#include "zero/plan/units/partition.h"

namespace zero {

Placement place(int stage, Reduce reduce, int accumulate, bool delayed_update) {
  if (stage < 0 || stage > 3) {
    throw ConfigError("zero.stage", fmt::format("{}", stage), "there is no such stage",
                      "0 replicates, 1 shards optimizer state, 2 also gradients, 3 also parameters");
  }
  if (accumulate < 1) {
    throw ConfigError("train.accumulate", fmt::format("{}", accumulate), "a step needs a micro-batch",
                      "set it to 1 or more");
  }
  Placement placement;
  placement.accumulate = accumulate;
  placement.reduce_each = accumulate == 1 || reduce != Reduce::kLast;
  placement.optimizer_sharded = stage >= 1;
  // A local sum over micro-batches needs the whole gradient, which takes the memory of stage 1.
  placement.gradient_sharded = stage >= 2 && placement.reduce_each;
  placement.parameter_sharded = stage >= 3;
  placement.delayed_update = delayed_update;
  if (delayed_update && !placement.gradient_sharded) {
    throw ConfigError("zero.delayed_update", "true",
                      "it keeps each gradient for one more step, and that needs sharded gradients",
                      "use stage 2 or 3 and train.reduce = \"each\", which shard them, or leave it out");
  }
  return placement;
}

int Placement::num_partial_sums() const {
  return leaves > 0 ? counter_depth(accumulate) - 1 : 0;
}

Placement at_stage(Placement placement, int stage) {
  const Reduce reduce = placement.reduce_each ? Reduce::kEach : Reduce::kLast;
  const Placement of_stage = place(stage, reduce, placement.accumulate, placement.delayed_update);
  placement.parameter_sharded = of_stage.parameter_sharded;
  placement.gradient_sharded = of_stage.gradient_sharded;
  placement.optimizer_sharded = of_stage.optimizer_sharded;
  placement.reduce_each = of_stage.reduce_each;
  placement.tiers.clear();
  return placement;
}

namespace {

// Returns the elements of each state that a rank holds.
UnitTiers on_device(const Placement& placement, const Unit& unit, int world) {
  const std::int64_t shard = shard_numel(unit, world);
  const auto held = [&](bool sharded) { return TierSplit{.device = sharded ? shard : padded_numel(unit, world)}; };
  UnitTiers tiers{.parameter = held(placement.parameter_sharded)};
  if (unit.trainable) {
    tiers.gradient = held(placement.gradient_sharded);
    if (!placement.updated_elsewhere) tiers.optimizer = held(placement.optimizer_sharded);
  }
  return tiers;
}

void spread(std::vector<UnitTiers>& tiers, TierSplit UnitTiers::*state, TierFractions fractions, std::string_view key) {
  std::vector<std::int64_t> numels;
  for (const UnitTiers& unit : tiers) numels.push_back((unit.*state).numel());
  const std::vector<TierSplit> splits = split_over_tiers(numels, fractions, key);
  for (std::size_t unit = 0; unit < tiers.size(); ++unit) tiers[unit].*state = splits[unit];
}

}  // namespace

void spread_over_tiers(Placement& placement, const std::vector<Unit>& units, int world,
                       const StateFractions& fractions) {
  if (!fractions.parameter.on_device() && !placement.parameter_sharded) {
    throw ConfigError("zero.parameter", "", "whole parameters cannot leave the device",
                      "use stage 3, which shards them, or leave zero.parameter out");
  }
  if (!fractions.gradient.on_device() && !placement.gradient_sharded) {
    throw ConfigError("zero.gradient", "", "whole gradients cannot leave the device",
                      "use stage 2 or 3 and train.reduce = \"each\", which shard them, or leave zero.gradient out");
  }
  std::vector<UnitTiers> tiers;
  for (const Unit& unit : units) tiers.push_back(on_device(placement, unit, world));
  spread(tiers, &UnitTiers::parameter, fractions.parameter, "zero.parameter");
  spread(tiers, &UnitTiers::gradient, fractions.gradient, "zero.gradient");
  spread(tiers, &UnitTiers::optimizer, fractions.optimizer, "zero.optimizer");
  placement.tiers = fractions.on_device() ? std::vector<UnitTiers>{} : std::move(tiers);
}

Placement away_from_device(Placement placement, const std::vector<Unit>& units, int world, Tier to) {
  TierFractions all;
  all[to] = 1;
  spread_over_tiers(placement, units, world,
                    {.parameter = placement.parameter_sharded ? all : TierFractions{},
                     .gradient = placement.gradient_sharded ? all : TierFractions{},
                     .optimizer = all});
  return placement;
}

UnitTiers tiers_of(const Placement& placement, const Unit& unit, int world) {
  if (placement.tiers.empty()) return on_device(placement, unit, world);
  return placement.tiers[static_cast<std::size_t>(unit.index)];
}

}  // namespace zero
