#include "zero/optim/rule/own_rule.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/optim/rule/rule_checks.h"

namespace zero {
namespace {

// Returns whether every span has the state, as fp32.
bool is_plain(const StateSpec& state) {
  return !state.coded() && state.of == StateOf::kAll && state.per == StatePer::kElement;
}

// Wraps a user's shared rule as an owned one.
class SharedRule final : public UpdateRule {
 public:
  explicit SharedRule(std::shared_ptr<const UpdateRule> rule)
      : rule_(std::move(rule)),
        states_(rule_->states()),
        has_plain_states_(rule_->matrices() == nullptr && std::ranges::all_of(states_, is_plain)) {}
  std::string_view name() const override { return rule_->name(); }
  std::vector<StateSpec> states() const override { return states_; }
  int num_sums() const override { return rule_->num_sums(); }
  void add_sums(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> sums) const override {
    check(span, scalars);
    rule_->add_sums(span, scalars, sums);
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check(span, scalars);
    rule_->update(span, scalars);
  }
  const MatrixRule* matrices() const override { return rule_->matrices(); }
  const FactorRule* factors() const override { return rule_->factors(); }

 private:
  // Checks the span, unless a state is in 8 bits (other memory) or not in every span. Not in every span are states of
  // matrices or of other parameters, and state 0 of a MatrixRule, which only direct() has.
  void check(const UpdateSpan& span, const UpdateScalars& scalars) const {
    if (has_plain_states_) check_update(*this, states_.size(), span, scalars);
  }

  std::shared_ptr<const UpdateRule> rule_;
  std::vector<StateSpec> states_;
  bool has_plain_states_;
};

// Returns why the states cannot be kept; empty if they can.
std::string unkept_states(const UpdateRule& rule, const std::vector<StateSpec>& states) {
  if (states.size() > kMostOwnStates) return fmt::format("it has {} states", states.size());
  for (const StateSpec& state : states) {
    if (state.outer) return fmt::format("its state {} belongs to an outer step", state.name);
    if (state.per != StatePer::kElement && rule.factors() == nullptr)
      return fmt::format("its state {} has rows or columns, and the rule has no factors()", state.name);
    if (state.of != StateOf::kAll && needs_of(rule) != RuleNeeds::kMatrices &&
        needs_of(rule) != RuleNeeds::kRowsAndColumns)
      return fmt::format(
          "its state {} is only for matrices or only for other parameters, and the rule has neither matrices() nor "
          "factors()",
          state.name);
  }
  const auto num_per = [&](StatePer per) { return std::ranges::count(states, per, &StateSpec::per); };
  if (rule.factors() != nullptr && (num_per(StatePer::kRow) != 1 || num_per(StatePer::kColumn) != 1))
    return "it has factors(), but not one state of rows and one state of columns";
  return "";
}

}  // namespace

std::unique_ptr<UpdateRule> make_rule(const OwnRuleOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  if (options.rule == nullptr)
    throw ConfigError("optimizer.rule", "null", "there is no rule", "give a shared_ptr to one");
  const std::string reason = unkept_states(*options.rule, options.rule->states());
  if (options.rule->matrices() != nullptr && options.rule->num_sums() > 0)
    throw ConfigError("optimizer.rule", std::string(options.rule->name()),
                      fmt::format("it has matrices() and {} sums, and matrices have no sums", options.rule->num_sums()),
                      "let num_sums() return 0, or matrices() null");
  if (!reason.empty())
    throw ConfigError(
        "optimizer.rule", std::string(options.rule->name()), reason,
        fmt::format("use at most {} states, each in fp32 or, if it has a value for each element, in 8 bits (StateCode)",
                    kMostOwnStates));
  return std::make_unique<SharedRule>(options.rule);
}

}  // namespace zero
