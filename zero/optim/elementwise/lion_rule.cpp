#include "zero/optim/elementwise/lion_rule.h"

#include "zero/optim/elementwise/lion_kernel.h"
#include "zero/optim/lanes/elementwise_rule.h"
#include "zero/optim/rule/rule_checks.h"

namespace zero {

LionOptions LionOptions::from(const RuleKeys& keys) {
  return {.lr = keys.lr, .beta1 = keys.betas[0], .beta2 = keys.betas[1], .weight_decay = keys.weight_decay};
}

std::unique_ptr<UpdateRule> make_rule(const LionOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-4");
  require_betas(options.beta1, options.beta2, "use for example [0.9, 0.99]");
  return std::make_unique<ElementwiseRule<LionOptions>>(
      options, fp32({"exp_avg"}),
      [](const UpdateSpan& span, const LionOptions& o, const UpdateScalars& s) {
        lion_update(span, lion_constants(o, s));
      },
      [](Device& device, Lane lane, std::span<const SpanUpdate> updates, const LionOptions& o) {
        queue_slices<LionConstants>(device, lane, kLion, updates,
                                    [&o](const UpdateScalars& s) { return lion_constants(o, s); });
      });
}

}  // namespace zero
