#include "zero/optim/rule/update_rule.h"

#include <vector>

#include "zero/base/error/check.h"

namespace zero {
namespace {

struct QueuedUpdate {
  const UpdateRule* rule;
  SpanUpdate update;
};

void update_host(const QueuedUpdate& queued) {
  queued.rule->update(queued.update.span, queued.update.scalars);
}

constexpr Kernel kOwnUpdate = kernel_of<QueuedUpdate, &update_host>("own update rule");

}  // namespace

void MatrixRule::queue_directions(Device& device, Lane /*lane*/, std::span<const SpanUpdate> /*updates*/) const {
  ZERO_CHECK(false, "a rule of matrices without code for {}", device.name());
}

void MatrixRule::queue_completion(Device& device, Lane /*lane*/, float* /*directions*/, const MatrixShape& /*matrix*/,
                                  std::span<float> /*workspace*/) const {
  ZERO_CHECK(false, "a rule of matrices without code for {}", device.name());
}

void UpdateRule::queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const {
  for (const SpanUpdate& update : updates) {
    const QueuedUpdate queued{this, update};
    const std::vector<Access> accesses = update.span.accesses();
    device.run(lane, {kOwnUpdate, std::as_bytes(std::span(&queued, 1)), accesses});
  }
}

void UpdateRule::queue_sums(Device& device, Lane /*lane*/, const UpdateSpan& /*span*/, const UpdateScalars& /*scalars*/,
                            std::span<SumLimbs> /*sums*/) const {
  ZERO_CHECK(false, "{} makes no sums on {}", name(), device.name());
}

OptimizerSpec spec_of(const UpdateRule& rule) {
  return {.states = states_of_elements(rule.states()),
          .factors = states_of_factors(rule.states()),
          .num_reads = rule.num_sums() > 0 ? 2 : 1};
}

RuleNeeds needs_of(const UpdateRule& rule) {
  if (rule.matrices() != nullptr) return RuleNeeds::kMatrices;
  if (rule.factors() != nullptr) return RuleNeeds::kRowsAndColumns;
  return rule.num_sums() > 0 ? RuleNeeds::kSums : RuleNeeds::kElements;
}

}  // namespace zero
