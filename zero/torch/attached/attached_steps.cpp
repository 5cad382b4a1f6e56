#include "zero/torch/attached/attached_steps.h"

#include "zero/engine/options/option_numbers.h"

namespace zero {

void AttachedSteps::discard_gradients() {
  parts_.values.require();
  parts_.gradients.take_zeroed();
  drop(std::vector<bool>(parts_.parameters.specs().size(), true));
}

void AttachedSteps::drop_zeroed() {
  if (!parts_.gradients.any_zeroed()) [[likely]]
    return;
  parts_.values.refuse_in_child();
  drop(parts_.gradients.take_zeroed());
}

void AttachedSteps::drop(const std::vector<bool>& params) {
  parts_.engine.gradients().drop(params);
  parts_.gradients.are_gone(params);
  if (!parts_.engine.gradients().any()) parts_.gradients.are_gone();
}

void AttachedSteps::begin(const StepRates& rates) {
  parts_.values.require();
  // Also checked if other ranks update.
  require_rates(rates, parts_.engine.resources().options.groups.size());
  parts_.parameters.require_unchanged();
  drop_zeroed();
  parts_.gradients.refuse_elsewhere();
  parts_.checkpoints.yield();
}

StepSync AttachedSteps::agree(const StepRates& rates, const StepLimits& limits) {
  begin(rates);
  return parts_.engine.agree_step(rates, limits);
}

StepReport AttachedSteps::carry_out(const StepSync& agreed, const StepRates& rates) {
  const StepReport report = parts_.engine.carry_out_step(agreed, rates);
  parts_.gradients.are_gone();
  return report;
}

StepReport AttachedSteps::step(const StepRates& rates, const StepLimits& limits) {
  begin(rates);
  const StepReport report = parts_.role.step(rates, limits);
  parts_.gradients.are_gone();
  return report;
}

}  // namespace zero
