#include "app/train/weights/module_plan.h"

#include "zero/engine/options/leaf_options.h"
#include "zero/plan/units/factored.h"
#include "zero/torch/module/module_parameters.h"

namespace zero {

TrainingPlan plan_of(const std::string& model, torch::nn::Module& module, int world, const AttachOptions& attach) {
  TrainingPlan plan{.model = model,
                    .specs = parameters_of(module, attach.dtype).specs,
                    .world = world,
                    .options = settle_leaves(attach, world)};
  if (attach.sync.has_servers()) {
    plan.world = attach.sync.servers;
    plan.workers = attach.sync.num_workers(world);
  }
  require_members(plan.specs, attach.groups);
  require_matrix(plan.specs, attach);
  plan.units = units_of(plan.specs, plan.world, attach);
  if (!attach.offload.fractions.on_device()) {
    Placement placement = placement_of(plan);
    spread_over_tiers(placement, plan.units, mesh_of(plan).shard, attach.offload.fractions);
    plan.tiers = placement.tiers;
  }
  return plan;
}

// If copies train apart, a checkpoint has each copy and their shared states. Each rank's file has the states of rows
// and columns.
std::int64_t checkpoint_bytes(torch::nn::Module& module, int world, const AttachOptions& attach) {
  const OptimizerSpec rule = spec_of(*rule_of(attach));
  const int copies = attach.local ? mesh_of(world, attach).copies : 1;
  const auto element_bytes = [&](bool matrices) {  // bytes of an element in a checkpoint
    std::int64_t own = 4, shared = 0;
    for (const StateSpec& state : rule.states) (state.shared() ? shared : own) += state.kept_by(matrices) ? 4 : 0;
    return copies * own + shared;
  };
  const MatrixChoice is_matrix = matrices_of(attach);
  std::int64_t bytes = 0;
  const std::vector<ParamSpec> specs = parameters_of(module, attach.dtype).specs;
  for (const ParamSpec& spec : specs) bytes += spec.numel() * (spec.trainable ? element_bytes(is_matrix(spec)) : 4);
  for (const Unit& unit : units_of(specs, world, attach)) bytes += world * factor_bytes(unit, rule);
  return bytes;
}

}  // namespace zero
