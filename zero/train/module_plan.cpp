#include "zero/train/module_plan.h"

#include "zero/torch/module_parameters.h"

namespace zero {
TrainingPlan plan_of(const std::string& model, torch::nn::Module& module, int world, const AttachOptions& attach) {
  TrainingPlan plan{
      .model = model, .specs = parameters_of(module, attach.dtype).specs, .world = world, .options = attach};
  plan.units = make_units(plan.specs, attach.units);
  if (!attach.offload.fractions.on_device()) {
    Placement placement = placement_of(plan);
    spread_over_tiers(placement, plan.units, plan.world, attach.offload.fractions);
    plan.tiers = placement.tiers;
  }
  return plan;
}

std::int64_t checkpoint_bytes(torch::nn::Module& module, const AttachOptions& attach) {
  const int num_states = 1 + make_update_rule(attach.optimizer)->num_moments();
  std::int64_t bytes = 0;
  for (const ParamSpec& spec : parameters_of(module, attach.dtype).specs)
    bytes += spec.numel() * 4 * (spec.trainable ? num_states : 1);
  return bytes;
}

}  // namespace zero
