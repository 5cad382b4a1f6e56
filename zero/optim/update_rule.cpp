#include "zero/optim/update_rule.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/optim/adamw_kernel.h"
#include "zero/optim/sgd_kernel.h"

namespace zero {
namespace {

void check_update(const UpdateRule& rule, const UpdateSpan& span, const UpdateScalars& scalars) {
  ZERO_CHECK(span.numel >= 0, "{} elements", span.numel);
  ZERO_CHECK(scalars.step >= 1, "steps are counted from 1, not from {}", scalars.step);
  ZERO_CHECK(span.numel == 0 || (span.parameter != nullptr && span.gradient != nullptr), "{} without memory",
             rule.name());
  ZERO_CHECK(span.numel == 0 || (span.first_moment != nullptr) == (rule.num_moments() >= 1), "{}: first moment",
             rule.name());
  ZERO_CHECK(span.numel == 0 || (span.second_moment != nullptr) == (rule.num_moments() >= 2), "{}: second moment",
             rule.name());
}

class AdamWRule final : public UpdateRule {
 public:
  explicit AdamWRule(const AdamWOptions& options) : options_(options) {}
  std::string_view name() const override { return "adamw"; }
  int num_moments() const override { return 2; }
  std::string_view moment_name(int which) const override { return which == 0 ? "exp_avg" : "exp_avg_sq"; }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, span, scalars);
    adamw_update(span, adamw_constants(options_, scalars));
  }

 private:
  AdamWOptions options_;
};

class SgdRule final : public UpdateRule {
 public:
  explicit SgdRule(const SgdOptions& options) : options_(options) {}
  std::string_view name() const override { return "sgd"; }
  int num_moments() const override { return options_.momentum != 0 ? 1 : 0; }
  std::string_view moment_name(int) const override { return "momentum_buffer"; }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, span, scalars);
    sgd_update(span, sgd_constants(options_, scalars));
  }

 private:
  SgdOptions options_;
};

// A user's, as one that can be owned.
class SharedRule final : public UpdateRule {
 public:
  explicit SharedRule(std::shared_ptr<const UpdateRule> rule) : rule_(std::move(rule)) {}
  std::string_view name() const override { return rule_->name(); }
  int num_moments() const override { return rule_->num_moments(); }
  std::string_view moment_name(int which) const override { return rule_->moment_name(which); }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, span, scalars);
    rule_->update(span, scalars);
  }

 private:
  std::shared_ptr<const UpdateRule> rule_;
};

// A comparison with a NaN is false, so `valid` is false for it; infinity, and what is infinite as fp32, need the second
// look.
void require(bool valid, double value, std::string_view key, std::string_view reason, std::string_view remedy) {
  if (!valid || !std::isfinite(static_cast<float>(value)))
    throw ConfigError(key, fmt::format("{}", value), reason, remedy);
}

void require_lr_and_decay(double lr, double weight_decay, std::string_view usual_lr) {
  require(lr >= 0, lr, "optimizer.lr", "must be a finite number, 0 or more", usual_lr);
  require(weight_decay >= 0, weight_decay, "optimizer.weight_decay", "must be a finite number, 0 or more",
          "use 0 for no decay, or for example 0.1");
}

std::unique_ptr<UpdateRule> make_rule(const AdamWOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  const auto in_range = [](double beta) { return beta >= 0 && beta < 1; };  // false for NaN
  if (!in_range(options.beta1) || !in_range(options.beta2)) {
    throw ConfigError("optimizer.betas", fmt::format("[{}, {}]", options.beta1, options.beta2),
                      "each must be 0 or more and less than 1", "use for example [0.9, 0.95]");
  }
  // As fp32, because that is what keeps 0 / (sqrt(0) + eps) from being a NaN.
  require(static_cast<float>(options.eps) > 0, options.eps, "optimizer.eps",
          "must be a finite fp32 number greater than 0", "use for example 1e-8");
  return std::make_unique<AdamWRule>(options);
}

std::unique_ptr<UpdateRule> make_rule(const SgdOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-2");
  require(options.momentum >= 0 && options.momentum < 1, options.momentum, "optimizer.momentum",
          "must be 0 or more and less than 1", "use 0 for none, or for example 0.9");
  return std::make_unique<SgdRule>(options);
}

std::unique_ptr<UpdateRule> make_rule(const OwnRuleOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  if (options.rule == nullptr)
    throw ConfigError("optimizer.rule", "null", "there is no rule", "give a shared_ptr to one");
  const int moments = options.rule->num_moments();
  if (moments < 0 || moments > kMostMoments)
    throw ConfigError("optimizer.rule", std::string(options.rule->name()), fmt::format("it has {} moments", moments),
                      fmt::format("a rule has {} at most", kMostMoments));
  return std::make_unique<SharedRule>(options.rule);
}

}  // namespace

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return make_rule(chosen); }, options);
}

double learning_rate(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return chosen.lr; }, options);
}

std::string_view name_of(const OptimizerOptions& options) {
  if (const auto* own = std::get_if<OwnRuleOptions>(&options)) return own->rule ? own->rule->name() : "";
  return std::holds_alternative<AdamWOptions>(options) ? "adamw" : "sgd";
}

double weight_decay(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return chosen.weight_decay; }, options);
}

// The best target comes first: it is the one that a dispatch takes. There may be none: Highway 1.0 counts NEON only
// where the CPU has AES too, which that of a Raspberry Pi 4 has not; a dispatch then takes what the compiler takes for
// granted.
std::string kernel_target() {
  const auto targets = hwy::SupportedAndGeneratedTargets();
  return hwy::TargetName(targets.empty() ? HWY_STATIC_TARGET : targets.front());
}

}  // namespace zero
