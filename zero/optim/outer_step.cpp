#include "zero/optim/outer_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error.h"

namespace zero {
namespace {

class LocalRule final : public UpdateRule {
 public:
  explicit LocalRule(std::unique_ptr<UpdateRule> rule) : rule_(std::move(rule)), place_(rule_->states().size()) {}
  std::string_view name() const override { return rule_->name(); }
  std::vector<StateSpec> states() const override {
    std::vector<StateSpec> states = rule_->states();
    for (const std::string_view name : {kOuterMomentumState, kAnchorState})
      states.push_back({.name = std::string(name), .outer = true});
    return states;
  }
  int num_sums() const override { return rule_->num_sums(); }
  void add_sums(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> sums) const override {
    rule_->add_sums(of_the_rule(span), scalars, sums);
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    rule_->update(of_the_rule(span), scalars);
  }
  const MatrixRule* matrices() const override { return rule_->matrices(); }
  const FactorRule* factors() const override { return rule_->factors(); }

 private:
  UpdateSpan of_the_rule(UpdateSpan span) const {
    span.states[place_] = span.states[place_ + 1] = nullptr;
    return span;
  }

  std::unique_ptr<UpdateRule> rule_;
  std::size_t place_;
};

class Anchoring final : public UpdateRule {
 public:
  explicit Anchoring(std::vector<StateSpec> states) : states_(std::move(states)) {}
  std::string_view name() const override { return "anchoring"; }
  std::vector<StateSpec> states() const override { return states_; }
  void update(const UpdateSpan& span, const UpdateScalars& /*scalars*/) const override {
    std::copy_n(span.parameter, span.numel, span.states[states_.size() - 1]);
  }

 private:
  std::vector<StateSpec> states_;
};

// A comparison with a NaN is false, so that one is refused, too.
void require_local(bool valid, std::string_view key, std::string value, std::string_view reason,
                   std::string_view remedy) {
  if (!valid) throw ConfigError(key, std::move(value), reason, remedy);
}

}  // namespace

std::unique_ptr<UpdateRule> with_outer_states(std::unique_ptr<UpdateRule> rule, const LocalSteps& local) {
  require_local(local.steps >= 1, "sync.local_steps", fmt::format("{}", local.steps),
                "an outer step comes after some steps", "use 1 or more, for example 50");
  require_local(local.outer_lr > 0 && std::isfinite(static_cast<float>(local.outer_lr)), "sync.outer_lr",
                fmt::format("{}", local.outer_lr), "must be a finite number above 0",
                "use for example 0.7, or 1 with sync.outer_momentum 0 for the mean of the copies");
  require_local(local.outer_momentum >= 0 && static_cast<float>(local.outer_momentum) < 1, "sync.outer_momentum",
                fmt::format("{}", local.outer_momentum), "must be 0 or more and less than 1", "use for example 0.9");
  require_local(rule->states().size() + 2 <= kMostStates, "sync.mode", "local",
                fmt::format("{} has {} states already, and a rule has {} at most, two of them the outer step's",
                            rule->name(), rule->states().size(), kMostStates),
                "use another optimizer, or sync.mode sync");
  return std::make_unique<LocalRule>(std::move(rule));
}

OuterStep::OuterStep(const UpdateRule& rule, const LocalSteps& local, int copies)
    : momentum_(rule.states().size() - 2),
      lr_(static_cast<float>(local.outer_lr)),
      mu_(static_cast<float>(local.outer_momentum)),
      copies_(static_cast<float>(copies)) {}

void OuterStep::subtract(const UpdateSpan& span) const {
  const float* const anchor = span.states[momentum_ + 1];
  float* const difference = span.states[momentum_];
  for (std::int64_t i = 0; i < span.numel; ++i) difference[i] = anchor[i] - span.parameter[i];
}

void OuterStep::update(const UpdateSpan& span) const {
  const auto* const sum = reinterpret_cast<const float*>(span.gradient);
  float* const momentum = span.states[momentum_];
  float* const anchor = span.states[momentum_ + 1];
  for (std::int64_t i = 0; i < span.numel; ++i) {
    const float difference = sum[i] / copies_;
    momentum[i] = mu_ * momentum[i] + difference;
    anchor[i] -= lr_ * (difference + mu_ * momentum[i]);
    span.parameter[i] = anchor[i];
  }
  span.write_low_precision();
}

std::unique_ptr<UpdateRule> make_anchoring(const UpdateRule& rule) {
  return std::make_unique<Anchoring>(rule.states());
}

}  // namespace zero
