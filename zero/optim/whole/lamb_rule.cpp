#include "zero/optim/whole/lamb_rule.h"

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/optim/lanes/elementwise_rule.h"
#include "zero/optim/rule/rule_checks.h"
#include "zero/optim/whole/lamb_kernel.h"

namespace zero {
namespace {

class LambRule final : public ElementwiseRule<LambOptions> {
 public:
  explicit LambRule(const LambOptions& options)
      : ElementwiseRule(options, fp32({"exp_avg", "exp_avg_sq"}), update_span, queue_spans) {}
  int num_sums() const override { return 2; }
  void add_sums(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> sums) const override {
    check_update(*this, /*num_states=*/2, span, scalars);
    add_lamb_sums(span, lamb_constants(options(), scalars), sums[0], sums[1]);
  }
  void queue_sums(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars,
                  std::span<SumLimbs> sums) const override {
    check_update(*this, /*num_states=*/2, span, scalars);
    LambSumsArguments arguments;
    arguments.slices.add(span, lamb_constants(options(), scalars));
    queue_two_sums(device, lane, kLambSums, arguments, sums);
  }

 private:
  static void update_span(const UpdateSpan& span, const LambOptions& options, const UpdateScalars& scalars) {
    lamb_update(span, lamb_constants(options, scalars));
  }
  static void queue_spans(Device& device, Lane lane, std::span<const SpanUpdate> updates, const LambOptions& options) {
    queue_slices<LambConstants>(device, lane, kLamb, updates,
                                [&](const UpdateScalars& scalars) { return lamb_constants(options, scalars); });
  }
};

}  // namespace

LambOptions LambOptions::from(const RuleKeys& keys) {
  return {.lr = keys.lr,
          .beta1 = keys.betas[0],
          .beta2 = keys.betas[1],
          .eps = keys.eps,
          .weight_decay = keys.weight_decay,
          .least_ratio = keys.trust_ratio[0],
          .most_ratio = keys.trust_ratio[1]};
}

std::unique_ptr<UpdateRule> make_rule(const LambOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  require_betas(options.beta1, options.beta2, "use for example [0.9, 0.999]");
  require_eps(options.eps);
  if (!kAtLeastZero.contains(options.least_ratio) || !kAtLeastZero.contains(options.most_ratio) ||
      options.least_ratio > options.most_ratio)
    throw ConfigError("optimizer.trust_ratio", fmt::format("[{}, {}]", options.least_ratio, options.most_ratio),
                      "must be two finite numbers, 0 or more, the smaller one first", "use for example [0.01, 10]");
  return std::make_unique<LambRule>(options);
}

}  // namespace zero
