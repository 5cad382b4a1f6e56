#include "zero/optim/outer_step.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"

namespace zero {
namespace {

class LocalRule final : public UpdateRule {
 public:
  LocalRule(std::unique_ptr<UpdateRule> rule, std::vector<StateSpec> outer)
      : rule_(std::move(rule)), outer_(std::move(outer)), place_(states_of_elements(rule_->states()).size()) {}
  std::string_view name() const override { return rule_->name(); }
  std::vector<StateSpec> states() const override {
    std::vector<StateSpec> states = rule_->states();
    states.insert(states.end(), outer_.begin(), outer_.end());
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
    for (std::size_t state = 0; state < outer_.size(); ++state) span.states[place_ + state] = nullptr;
    return span;
  }

  std::unique_ptr<UpdateRule> rule_;
  std::vector<StateSpec> outer_;
  std::size_t place_;
};

class Anchoring final : public UpdateRule {
 public:
  explicit Anchoring(std::vector<StateSpec> states) : states_(states_of_elements(std::move(states))) {}
  std::string_view name() const override { return "anchoring"; }
  std::vector<StateSpec> states() const override { return states_; }
  void update(const UpdateSpan& span, const UpdateScalars& /*scalars*/) const override {
    std::copy_n(span.parameter, span.numel, span.states[states_.size() - 1]);
  }

 private:
  std::vector<StateSpec> states_;
};

void write_low(float* parameter, std::byte* low, DType dtype, std::int64_t numel) {
  UpdateSpan{.parameter = parameter, .low_precision = low, .low_precision_dtype = dtype, .numel = numel}
      .write_low_precision();
}

void mix(const MixArguments& a) {
  if (a.own == 0) {
    std::copy_n(a.anchor, a.numel, a.parameter);
  } else {
    for (std::int64_t i = 0; i < a.numel; ++i) a.parameter[i] = a.own * a.parameter[i] + a.shared * a.anchor[i];
  }
  write_low(a.parameter, a.low_precision, a.low_precision_dtype, a.numel);
}

void outer_subtract(const OuterArguments& a) {
  for (std::int64_t i = 0; i < a.numel; ++i) a.momentum[i] = a.anchor[i] - a.parameter[i];
  if (a.residual == nullptr) return;
  for (std::int64_t i = 0; i < a.numel; ++i) a.momentum[i] += a.residual[i];
}

void outer_move(const OuterArguments& a) {
  for (std::int64_t i = 0; i < a.numel; ++i) {
    const float difference = a.sum[i] / a.copies;
    a.momentum[i] = a.mu * a.momentum[i] + difference;
    a.anchor[i] -= a.lr * (difference + a.mu * a.momentum[i]);
  }
  if (a.parameter == nullptr) return;
  std::copy_n(a.anchor, a.numel, a.parameter);
  write_low(a.parameter, a.low_precision, a.low_precision_dtype, a.numel);
}

class Mixing final : public UpdateRule {
 public:
  Mixing(std::vector<StateSpec> states, double mix)
      : states_(states_of_elements(std::move(states))), own_(static_cast<float>(mix)), shared_(1 - own_) {}
  std::string_view name() const override { return "mixing"; }
  std::vector<StateSpec> states() const override { return states_; }
  void update(const UpdateSpan& span, const UpdateScalars& /*scalars*/) const override {
    mix({.parameter = span.parameter,
         .anchor = span.states[states_.size() - 1],
         .low_precision = span.low_precision,
         .low_precision_dtype = span.low_precision_dtype,
         .numel = span.numel,
         .own = own_,
         .shared = shared_});
  }

 private:
  std::vector<StateSpec> states_;
  float own_, shared_;
};

void require_local(bool valid, std::string_view key, std::string value, std::string_view reason,
                   std::string_view remedy) {
  if (!valid) throw ConfigError(key, std::move(value), reason, remedy);
}

}  // namespace

const Kernel kOuterSubtract = kernel_of<OuterArguments, &outer_subtract>("outer_subtract");
const Kernel kOuterMove = kernel_of<OuterArguments, &outer_move>("outer_move");
const Kernel kMix = kernel_of<MixArguments, &mix>("mix");

std::unique_ptr<UpdateRule> with_outer_states(std::unique_ptr<UpdateRule> rule, const LocalSteps& local,
                                              bool keeps_residual) {
  require_local(local.steps >= 1, "sync.local_steps", fmt::format("{}", local.steps),
                "an outer step needs one or more steps before it", "use 1 or more, for example 50");
  require_number("sync.outer_lr", local.outer_lr, kAboveZero,
                 "use for example 0.7, or 1 with sync.outer_momentum 0 for the mean of the copies");
  require_number("sync.outer_momentum", local.outer_momentum, kFractionOfOne, "use for example 0.9");
  require_number("sync.mix", local.mix, kFractionOfOne, "use for example 0.5, or 0 for only the shared weights");
  require_local(local.fragments >= 1 && local.fragments <= local.steps, "sync.fragments",
                fmt::format("{}", local.fragments),
                fmt::format("each fragment needs its own step of the {} steps (sync.local_steps)", local.steps),
                fmt::format("use 1 to {}", local.steps));
  const int apart = local.steps / local.fragments;
  require_local(local.overlap >= 0 && local.overlap <= apart, "sync.overlap", fmt::format("{}", local.overlap),
                fmt::format("fragments are sent one at a time, and the next fragment follows after {} steps", apart),
                fmt::format("use 0 to {}, or fewer sync.fragments", apart));
  std::vector<StateSpec> outer{{.name = std::string(kOuterMomentumState), .outer = true},
                               {.name = std::string(kAnchorState), .outer = true}};
  if (keeps_residual)
    outer.insert(outer.begin(), {.name = std::string(kOuterResidualState), .outer = true, .of_copy = true});
  require_local(rule->states().size() + outer.size() <= kMostStates, "sync.mode", "local",
                fmt::format("{} has {} states already; a rule has at most {} states, {} of them for the outer step",
                            rule->name(), rule->states().size(), kMostStates, outer.size()),
                "use another optimizer, or sync.mode sync");
  return std::make_unique<LocalRule>(std::move(rule), std::move(outer));
}

OuterStep::OuterStep(const UpdateRule& rule, const LocalSteps& local, int copies)
    : momentum_(states_of_elements(rule.states()).size() - 2),
      keeps_residual_(momentum_ > 0 && states_of_elements(rule.states())[momentum_ - 1].of_copy),
      lr_(static_cast<float>(local.outer_lr)),
      mu_(static_cast<float>(local.outer_momentum)),
      copies_(static_cast<float>(copies)) {}

OuterArguments OuterStep::arguments_of(const UpdateSpan& span) const {
  return {.parameter = span.parameter,
          .momentum = span.states[momentum_],
          .anchor = span.states[momentum_ + 1],
          .residual = keeps_residual_ ? span.states[residual_place()] : nullptr,
          .sum = reinterpret_cast<const float*>(span.gradient),
          .low_precision = span.low_precision,
          .low_precision_dtype = span.low_precision_dtype,
          .numel = span.numel,
          .lr = lr_,
          .mu = mu_,
          .copies = copies_};
}

void OuterStep::subtract(const UpdateSpan& span) const {
  outer_subtract(arguments_of(span));
}

void OuterStep::keep(const UpdateSpan& span) const {
  std::copy_n(reinterpret_cast<const float*>(span.gradient), span.numel, span.states[residual_place()]);
}

void OuterStep::update(const UpdateSpan& span) const {
  outer_move(arguments_of(span));
}

void OuterStep::move(const UpdateSpan& span) const {
  OuterArguments arguments = arguments_of(span);
  arguments.parameter = nullptr;
  outer_move(arguments);
}

std::unique_ptr<UpdateRule> make_anchoring(const UpdateRule& rule) {
  return std::make_unique<Anchoring>(rule.states());
}

std::unique_ptr<UpdateRule> make_mixing(const UpdateRule& rule, double mix) {
  return std::make_unique<Mixing>(rule.states(), mix);
}

}  // namespace zero
