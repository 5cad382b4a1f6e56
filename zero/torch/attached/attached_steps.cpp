#include "zero/torch/attached/attached_steps.h"

#include "zero/base/error/error.h"
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
  // Also checked on a worker, whose servers update.
  require_rates(rates, parts_.engine.resources().options.groups.size());
  parts_.parameters.require_unchanged();
  drop_zeroed();
  parts_.gradients.refuse_elsewhere();
  parts_.checkpoints.yield();
}

StepSync AttachedSteps::agree(const StepRates& rates, const StepLimits& limits) {
  begin(rates);
  parts_.engine.writes().refuse_elsewhere(parts_.parameters.specs());
  return parts_.engine.agree_step(rates, limits);
}

StepReport AttachedSteps::carry_out(const StepSync& agreed, const StepRates& rates) {
  const StepReport report = parts_.engine.carry_out_step(agreed, rates);
  parts_.gradients.are_gone();
  return report;
}

StepReport AttachedSteps::step(const StepRates& rates, const StepLimits& limits) {
  begin(rates);
  if (parts_.role.server() != nullptr)
    throw ConfigError("step", "", "called on a server, and a server computes no gradients", "call serve() on servers");
  if (limits.fewer_micro_batches && parts_.role.is_worker())
    throw ConfigError("step", "fewer_micro_batches", "servers divide by the micro-batches of a whole step",
                      "drop the short group with discard_gradients(), or leave out sync.servers");
  if (parts_.role.is_worker() && !(rates.by_group.empty() && rates.decay_by_group.empty()))
    throw ConfigError("step", rates.by_group.empty() ? "decay_by_group" : "by_group",
                      "a worker sends servers one learning rate", "set lr_scale and weight_decay of options.groups");
  parts_.engine.writes().refuse_elsewhere(parts_.parameters.specs());
  PushWorker* const worker = parts_.role.worker();
  const StepReport report = worker != nullptr ? worker->push(rates.lr, limits.loss) : parts_.engine.step(rates, limits);
  parts_.gradients.are_gone();
  return report;
}

}  // namespace zero
