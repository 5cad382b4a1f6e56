#include "zero/optim/elementwise/adamw8bit_rule.h"

#include "zero/optim/elementwise/adam_rule.h"
#include "zero/optim/elementwise/adamw8bit_kernel.h"
#include "zero/optim/rule/rule_checks.h"

namespace zero {
namespace {

class AdamW8bitRule final : public UpdateRule {
 public:
  explicit AdamW8bitRule(const AdamWOptions& options) : options_(options) {}
  std::string_view name() const override { return AdamW8bitOptions::kRow.name; }
  std::vector<StateSpec> states() const override {
    return {{.name = "exp_avg", .code = StateCode::kSigned8}, {.name = "exp_avg_sq", .code = StateCode::kUnsigned8}};
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, /*num_states=*/0, span, scalars);
    check_coded(*this, /*num_coded=*/2, span);
    adamw8bit_update(span, adamw8bit_constants(options_, scalars));
  }
  void queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const override {
    for (const SpanUpdate& update : updates) {
      check_update(*this, /*num_states=*/0, update.span, update.scalars);
      check_coded(*this, /*num_coded=*/2, update.span);
    }
    queue_slices<AdamConstants>(device, lane, kAdamW8bit, updates, [this](const UpdateScalars& scalars) {
      return adamw8bit_constants(options_, scalars);
    });
  }

 private:
  AdamWOptions options_;
};

}  // namespace

AdamW8bitOptions AdamW8bitOptions::from(const RuleKeys& keys) {
  return {.lr = keys.lr,
          .beta1 = keys.betas[0],
          .beta2 = keys.betas[1],
          .eps = keys.eps,
          .weight_decay = keys.weight_decay};
}

std::unique_ptr<UpdateRule> make_rule(const AdamW8bitOptions& options) {
  require_adam(options);
  return std::make_unique<AdamW8bitRule>(AdamWOptions{.lr = options.lr,
                                                      .beta1 = options.beta1,
                                                      .beta2 = options.beta2,
                                                      .eps = options.eps,
                                                      .weight_decay = options.weight_decay});
}

}  // namespace zero
