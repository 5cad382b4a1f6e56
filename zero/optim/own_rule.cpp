#include "zero/optim/own_rule.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/optim/rule_checks.h"

namespace zero {
namespace {

// A user's, as one that can be owned.
class SharedRule final : public UpdateRule {
 public:
  explicit SharedRule(std::shared_ptr<const UpdateRule> rule) : rule_(std::move(rule)), states_(rule_->states()) {}
  std::string_view name() const override { return rule_->name(); }
  std::vector<StateSpec> states() const override { return states_; }
  int num_sums() const override { return rule_->num_sums(); }
  void add_sums(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> sums) const override {
    check_update(*this, states_.size(), span, scalars);
    rule_->add_sums(span, scalars, sums);
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, states_.size(), span, scalars);
    rule_->update(span, scalars);
  }

 private:
  std::shared_ptr<const UpdateRule> rule_;
  std::vector<StateSpec> states_;
};

}  // namespace

std::unique_ptr<UpdateRule> make_rule(const OwnRuleOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  if (options.rule == nullptr)
    throw ConfigError("optimizer.rule", "null", "there is no rule", "give a shared_ptr to one");
  const std::vector<StateSpec> states = options.rule->states();
  const bool fp32 = std::ranges::all_of(states, [](const StateSpec& s) {
    return s.dtype == DType::kFloat32 && !s.coded() && s.per == StatePer::kElement;
  });
  if (states.size() > kMostOwnStates || !fp32)
    throw ConfigError(
        "optimizer.rule", std::string(options.rule->name()),
        fmt::format("it has {} states{}", states.size(), fp32 ? "" : ", not all of them fp32 values of each element"),
        fmt::format("a rule has {} at most, each an fp32 value of each element", kMostOwnStates));
  return std::make_unique<SharedRule>(options.rule);
}

}  // namespace zero
