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
  const EngineOptions& options = plan.options;
  Placement placement =
      place(stage, options.reduce, options.accumulate, options.delayed_update && stage == options.stage);
  set_exchange(placement, mesh_of(plan), options);
  placement.linked = plan.linked;
  placement.device_is_apart = plan.machine && plan.machine->ranks_on_gpu > 0;
  placement.sums = options.sums;
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
  const Placement placement = placement_at(plan, stage);
  const OptimizerSpec spec = optimizer_spec(plan);
  const Mesh mesh = mesh_of(plan);
  StageCost cost{.stage = stage,
                 .state = state_bytes(plan.units, mesh.shard, placement, spec),
                 .sent_between_copies = sent_between_copies(plan.units, mesh, placement)};
  cost.sent = sent_bytes(plan.units, mesh.shard, placement) + cost.sent_between_copies;
  if (plan.options.local) cost.outer = outer_bytes(plan.units, mesh, placement);
  for (const Unit& unit : plan.units) {
    if (!unit.trainable) continue;
    const std::int64_t numel = num_parameters(unit);
    if (plan.options.local) cost.outer_formula += outer_formula_bytes(numel, mesh, placement.wire);
    cost.state_formula += state_formula_bytes(numel, mesh.shard, stage, unit.dtype, spec, unit.matrices()) +
                          static_cast<double>(factor_bytes(unit, spec));
    cost.sent_formula += sent_formula_bytes(numel, mesh.shard, placement, unit.dtype);
    cost.sent_between_copies_formula += sent_between_copies_formula_bytes(numel, mesh.shard, placement);
    cost.sent_formula += update_sent_formula_bytes(unit, mesh.shard, placement);
  }
  cost.sent_formula += cost.sent_between_copies_formula;
  return cost;
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
  const OptimizerSpec spec = optimizer_spec(plan);
  if (spec.num_reads == 1) return std::nullopt;
  const bool own_masters = std::ranges::all_of(plan.units, [](const Unit& u) { return u.dtype == DType::kFloat32; });
  const auto bytes_on = [&](Tier tier) {
    const StateBytes held = state_bytes(plan.units, mesh_of(plan).shard, placement_of(plan), spec, tier);
    return held.master + held.moment + (own_masters ? held.parameter : 0);
  };
  return UpdatePasses{.num_passes = spec.num_reads,
                      .factors_first = std::ranges::any_of(plan.units, &Unit::factored),
                      .host_bytes = bytes_on(Tier::kHost),
                      .disk_bytes = bytes_on(Tier::kDisk)};
}

std::vector<StageCost> costs_of(const TrainingPlan& plan, std::span<const int> stages) {
  std::vector<StageCost> costs;
  for (const int stage : stages) costs.push_back(cost_of(plan, stage));
  return costs;
}

}  // namespace zero
