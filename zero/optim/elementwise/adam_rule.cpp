#include "zero/optim/elementwise/adam_rule.h"

#include "zero/optim/elementwise/adam_kernel.h"
#include "zero/optim/lanes/elementwise_rule.h"
#include "zero/optim/rule/rule_checks.h"

namespace zero {
namespace {

template <typename Options>
Options adam_options(const RuleKeys& keys) {
  return {.lr = keys.lr,
          .beta1 = keys.betas[0],
          .beta2 = keys.betas[1],
          .eps = keys.eps,
          .weight_decay = keys.weight_decay};
}

template <typename Options>
std::unique_ptr<UpdateRule> make_adam(const Options& options) {
  require_adam(options);
  return std::make_unique<ElementwiseRule<Options>>(
      options, fp32({"exp_avg", "exp_avg_sq"}),
      [](const UpdateSpan& span, const Options& o, const UpdateScalars& s) { adam_update(span, adam_constants(o, s)); },
      [](Device& device, Lane lane, std::span<const SpanUpdate> updates, const Options& o) {
        queue_slices<AdamConstants>(device, lane, kAdam, updates,
                                    [&o](const UpdateScalars& s) { return adam_constants(o, s); });
      });
}

}  // namespace

AdamWOptions AdamWOptions::from(const RuleKeys& keys) {
  return adam_options<AdamWOptions>(keys);
}

AdamOptions AdamOptions::from(const RuleKeys& keys) {
  return adam_options<AdamOptions>(keys);
}

std::unique_ptr<UpdateRule> make_rule(const AdamWOptions& options) {
  return make_adam(options);
}

std::unique_ptr<UpdateRule> make_rule(const AdamOptions& options) {
  return make_adam(options);
}

}  // namespace zero
