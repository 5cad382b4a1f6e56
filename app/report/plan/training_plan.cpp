#include "app/report/plan/training_plan.h"

#include <algorithm>
#include <utility>

#include "zero/engine/place/placer.h"
#include "zero/optim/rule/update_rule.h"
#include "zero/plan/units/factored.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/secondary.h"

namespace zero {

std::int64_t num_parameters(const std::vector<ParamSpec>& specs) {
  std::int64_t numel = 0;
  for (const ParamSpec& spec : specs) numel += spec.numel();
  return numel;
}

Placement placement_of(const TrainingPlan& plan) {
  Placement placement = placement_at(plan, plan.options.stage);
  placement.tiers = plan.tiers;
  return as_held(plan, std::move(placement), mesh_of(plan).shard);
}

Placement as_held(const TrainingPlan& plan, Placement placement, int world) {
  const bool on_gpu = plan.machine && plan.machine->ranks_on_gpu > 0;
  if (on_gpu && plan.movable_disk_bytes == 0 && holds_all_whole(plan.options, placement, world))
    hold_all_whole(placement);
  return placement;
}

Placement placement_at(const TrainingPlan& plan, int stage) {
  Placement placement = placement_at(plan.options, mesh_of(plan), stage);
  placement.linked = plan.linked;
  placement.device_is_apart = plan.machine && plan.machine->ranks_on_gpu > 0;
  return placement;
}

Mesh mesh_of(const TrainingPlan& plan) {
  return mesh_of(plan.world, plan.options);
}

OptimizerSpec optimizer_spec(const TrainingPlan& plan) {
  return spec_of(*rule_of(plan.options));
}

std::int64_t num_parameters(const Unit& unit) {
  return used_numel(unit);
}

StageCost cost_of(const TrainingPlan& plan, int stage) {
  return cost_of(plan.units, mesh_of(plan), plan.options, placement_at(plan, stage), stage);
}

std::optional<SecondaryCost> secondary_cost(const TrainingPlan& plan) {
  const Placement placement = placement_of(plan);
  const int shard = mesh_of(plan).shard, group = placement.secondary_group;
  if (group == 0) return std::nullopt;
  SecondaryCost cost{.kept = secondary_bytes(plan.units, shard, group),
                     .sent_within = part_sent_bytes(plan.units, shard, placement)};
  for (const Unit& unit : plan.units)
    cost.sent_within_formula += part_formula_bytes(num_parameters(unit), placement, unit.dtype);
  cost.sent_between = sent_between_groups(sent_bytes(plan.units, shard, placement) - cost.sent_within, shard, group);
  return cost;
}

std::optional<UpdatePasses> update_passes(const TrainingPlan& plan) {
  OptimizerSpec spec = optimizer_spec(plan);
  if (spec.num_reads == 1) return std::nullopt;
  std::erase_if(spec.states, [](const StateSpec& state) { return state.outer; });
  const Placement placement = placement_of(plan);
  const int shard = mesh_of(plan).shard;
  const auto bytes_on = [&](Tier tier) {
    std::int64_t bytes = 0;
    for (const Unit& unit : plan.units) {
      if (!unit.trainable) continue;
      const StateBytes held = state_bytes({unit}, shard, placement, spec, tier);
      bytes += held.master + held.moment + (unit.dtype == DType::kFloat32 ? held.parameter : 0);
    }
    return bytes;
  };
  UpdatePasses passes{.num_passes = spec.num_reads, .factors_first = std::ranges::any_of(plan.units, &Unit::factored)};
  for (const Tier tier : kLowerTiers) passes.bytes[tier] = bytes_on(tier);
  return passes;
}

}  // namespace zero
