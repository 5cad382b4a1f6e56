#include "zero/optim/elementwise/sgd_rule.h"

#include <utility>

#include "zero/base/error/error.h"
#include "zero/optim/elementwise/sgd_kernel.h"
#include "zero/optim/lanes/elementwise_rule.h"
#include "zero/optim/rule/rule_checks.h"

namespace zero {

SgdOptions SgdOptions::from(const RuleKeys& keys) {
  return {.lr = keys.lr, .momentum = keys.momentum, .weight_decay = keys.weight_decay, .nesterov = keys.nesterov};
}

std::unique_ptr<UpdateRule> make_rule(const SgdOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-2");
  require_momentum(options.momentum, "use 0 for none, or for example 0.9");
  if (options.nesterov && options.momentum == 0)
    throw ConfigError("optimizer.nesterov", "true", "Nesterov needs momentum, and optimizer.momentum is 0",
                      "use optimizer.momentum, for example 0.9");
  std::vector<StateSpec> states;
  if (options.momentum != 0) states = fp32({"momentum_buffer"});
  return std::make_unique<ElementwiseRule<SgdOptions>>(
      options, std::move(states),
      [](const UpdateSpan& span, const SgdOptions& o, const UpdateScalars& s) {
        sgd_update(span, sgd_constants(o, s));
      },
      [](Device& device, Lane lane, std::span<const SpanUpdate> updates, const SgdOptions& o) {
        queue_slices<SgdConstants>(device, lane, kSgd, updates,
                                   [&o](const UpdateScalars& s) { return sgd_constants(o, s); });
      });
}

}  // namespace zero
