#include "zero/optim/update_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/optim/adafactor_rule.h"
#include "zero/optim/adam_kernel.h"
#include "zero/optim/adamw8bit_kernel.h"
#include "zero/optim/lamb_kernel.h"
#include "zero/optim/lion_kernel.h"
#include "zero/optim/muon_rule.h"
#include "zero/optim/sgd_kernel.h"

namespace zero {
namespace {

struct QueuedUpdate {
  const UpdateRule* rule;
  UpdateSpan span;
  UpdateScalars scalars;
};

void update_host(const QueuedUpdate& queued) {
  queued.rule->update(queued.span, queued.scalars);
}

constexpr Kernel kOwnUpdate = kernel_of<QueuedUpdate, &update_host>("own update rule");

void check_update(const UpdateRule& rule, std::size_t num_states, const UpdateSpan& span,
                  const UpdateScalars& scalars) {
  ZERO_CHECK(span.numel >= 0, "{} elements", span.numel);
  ZERO_CHECK(scalars.step >= 1, "steps are counted from 1, not from {}", scalars.step);
  ZERO_CHECK(span.numel == 0 || (span.parameter != nullptr && span.gradient != nullptr), "{} without memory",
             rule.name());
  for (std::size_t which = 0; which < kMostStates; ++which)
    ZERO_CHECK(span.numel == 0 || (span.states[which] != nullptr) == (which < num_states), "{}: state {}", rule.name(),
               which);
}

void check_coded(const UpdateRule& rule, std::size_t num_coded, const UpdateSpan& span) {
  for (std::size_t which = 0; which < kMostStates; ++which) {
    const CodedState& state = span.coded[which];
    const bool wanted = which < num_coded;
    ZERO_CHECK(span.numel == 0 || ((state.codes != nullptr) == wanted && (state.scales != nullptr) == wanted),
               "{}: codes of state {}", rule.name(), which);
  }
}

std::vector<StateSpec> fp32(std::initializer_list<std::string_view> names) {
  std::vector<StateSpec> states;
  for (const std::string_view name : names) states.push_back({std::string(name)});
  return states;
}

// One step of a rule that knows each element alone: constants for all elements, then the kernel.
template <typename Options>
class ElementwiseRule : public UpdateRule {
 public:
  using Step = void (*)(const UpdateSpan& span, const Options& options, const UpdateScalars& scalars);
  using Queue = void (*)(Device& device, Lane lane, const UpdateSpan& span, const Options& options,
                         const UpdateScalars& scalars);

  ElementwiseRule(const Options& options, std::string_view name, std::vector<StateSpec> states, Step step, Queue queue)
      : options_(options), name_(name), states_(std::move(states)), step_(step), queue_(queue) {}
  std::string_view name() const override { return name_; }
  std::vector<StateSpec> states() const override { return states_; }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, states_.size(), span, scalars);
    step_(span, options_, scalars);
  }
  void queue(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, states_.size(), span, scalars);
    queue_(device, lane, span, options_, scalars);
  }

 protected:
  const Options& options() const { return options_; }

 private:
  Options options_;
  std::string_view name_;
  std::vector<StateSpec> states_;
  Step step_;
  Queue queue_;
};

class AdamW8bitRule final : public UpdateRule {
 public:
  explicit AdamW8bitRule(const AdamWOptions& options) : options_(options) {}
  std::string_view name() const override { return "adamw8bit"; }
  std::vector<StateSpec> states() const override {
    return {{.name = "exp_avg", .code = StateCode::kSigned8}, {.name = "exp_avg_sq", .code = StateCode::kUnsigned8}};
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, /*num_states=*/0, span, scalars);
    check_coded(*this, /*num_coded=*/2, span);
    adamw8bit_update(span, adamw8bit_constants(options_, scalars));
  }
  void queue(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check_update(*this, /*num_states=*/0, span, scalars);
    check_coded(*this, /*num_coded=*/2, span);
    queue_slice(device, lane, kAdamW8bit, span, adamw8bit_constants(options_, scalars));
  }

 private:
  AdamWOptions options_;
};

class LambRule final : public ElementwiseRule<LambOptions> {
 public:
  explicit LambRule(const LambOptions& options)
      : ElementwiseRule(options, "lamb", fp32({"exp_avg", "exp_avg_sq"}), step, queue_step) {}
  int num_sums() const override { return 2; }
  void add_sums(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> sums) const override {
    check_update(*this, /*num_states=*/2, span, scalars);
    add_lamb_sums(span, lamb_constants(options(), scalars), sums[0], sums[1]);
  }

 private:
  static void step(const UpdateSpan& span, const LambOptions& options, const UpdateScalars& scalars) {
    lamb_update(span, lamb_constants(options, scalars));
  }
  static void queue_step(Device& device, Lane lane, const UpdateSpan& span, const LambOptions& options,
                         const UpdateScalars& scalars) {
    queue_slice(device, lane, kLamb, span, lamb_constants(options, scalars));
  }
};

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

void require_betas(double beta1, double beta2, std::string_view usual) {
  const auto in_range = [](double beta) { return beta >= 0 && beta < 1; };  // false for NaN
  if (in_range(beta1) && in_range(beta2)) return;
  throw ConfigError("optimizer.betas", fmt::format("[{}, {}]", beta1, beta2), "each must be 0 or more and less than 1",
                    std::string(usual));
}

void require_eps(double eps) {
  // As fp32, because that is what keeps 0 / (sqrt(0) + eps) from being a NaN.
  require(static_cast<float>(eps) > 0, eps, "optimizer.eps", "must be a finite fp32 number greater than 0",
          "use for example 1e-8");
}

template <typename Options>
void require_adam(const Options& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  require_betas(options.beta1, options.beta2, "use for example [0.9, 0.95]");
  require_eps(options.eps);
}

template <typename Options>
std::unique_ptr<UpdateRule> make_adam(std::string_view name, const Options& options) {
  require_adam(options);
  return std::make_unique<ElementwiseRule<Options>>(
      options, name, fp32({"exp_avg", "exp_avg_sq"}),
      [](const UpdateSpan& span, const Options& o, const UpdateScalars& s) { adam_update(span, adam_constants(o, s)); },
      [](Device& device, Lane lane, const UpdateSpan& span, const Options& o, const UpdateScalars& s) {
        queue_slice(device, lane, kAdam, span, adam_constants(o, s));
      });
}

// One row a rule: its name, what its options must be, the names of its moments, its kernel.
std::unique_ptr<UpdateRule> make_rule(const AdamWOptions& options) {
  return make_adam(name_of(options), options);
}

std::unique_ptr<UpdateRule> make_rule(const AdamOptions& options) {
  return make_adam(name_of(options), options);
}

std::unique_ptr<UpdateRule> make_rule(const SgdOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-2");
  require(options.momentum >= 0 && options.momentum < 1, options.momentum, "optimizer.momentum",
          "must be 0 or more and less than 1", "use 0 for none, or for example 0.9");
  if (options.nesterov && options.momentum == 0)
    throw ConfigError("optimizer.nesterov", "true", "there is no momentum to look ahead with",
                      "use optimizer.momentum, for example 0.9");
  std::vector<StateSpec> states;
  if (options.momentum != 0) states = fp32({"momentum_buffer"});
  return std::make_unique<ElementwiseRule<SgdOptions>>(
      options, name_of(options), std::move(states),
      [](const UpdateSpan& span, const SgdOptions& o, const UpdateScalars& s) {
        sgd_update(span, sgd_constants(o, s));
      },
      [](Device& device, Lane lane, const UpdateSpan& span, const SgdOptions& o, const UpdateScalars& s) {
        queue_slice(device, lane, kSgd, span, sgd_constants(o, s));
      });
}

std::unique_ptr<UpdateRule> make_rule(const LionOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-4");
  require_betas(options.beta1, options.beta2, "use for example [0.9, 0.99]");
  return std::make_unique<ElementwiseRule<LionOptions>>(
      options, name_of(options), fp32({"exp_avg"}),
      [](const UpdateSpan& span, const LionOptions& o, const UpdateScalars& s) {
        lion_update(span, lion_constants(o, s));
      },
      [](Device& device, Lane lane, const UpdateSpan& span, const LionOptions& o, const UpdateScalars& s) {
        queue_slice(device, lane, kLion, span, lion_constants(o, s));
      });
}

std::unique_ptr<UpdateRule> make_rule(const LambOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  require_betas(options.beta1, options.beta2, "use for example [0.9, 0.999]");
  require_eps(options.eps);
  if (!(options.least_ratio >= 0 && options.least_ratio <= options.most_ratio && std::isfinite(options.most_ratio)))
    throw ConfigError("optimizer.trust_ratio", fmt::format("[{}, {}]", options.least_ratio, options.most_ratio),
                      "must be two finite numbers, 0 or more, the smaller one first", "use for example [0.01, 10]");
  return std::make_unique<LambRule>(options);
}

std::unique_ptr<UpdateRule> make_rule(const AdamW8bitOptions& options) {
  require_adam(options);
  return std::make_unique<AdamW8bitRule>(AdamWOptions{.lr = options.lr,
                                                      .beta1 = options.beta1,
                                                      .beta2 = options.beta2,
                                                      .eps = options.eps,
                                                      .weight_decay = options.weight_decay});
}

std::unique_ptr<UpdateRule> make_rule(const MuonOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 0.02");
  require(options.lr > 0 || options.adamw.lr == 0, options.lr, "optimizer.lr",
          "AdamW's learning rate is kept as a multiple of it", "use more than 0");
  require(options.momentum >= 0 && options.momentum < 1, options.momentum, "optimizer.momentum",
          "must be 0 or more and less than 1", "use for example 0.95");
  if (options.steps < 1 || options.steps >= 100)
    throw ConfigError("optimizer.steps", fmt::format("{}", options.steps), "Newton-Schulz takes 1 to 99 steps",
                      "use 5");
  require(options.adamw.lr >= 0, options.adamw.lr, "optimizer.adamw_lr", "must be a finite number, 0 or more",
          "use for example 1e-3, or 0 for optimizer.lr");
  require_betas(options.adamw.beta1, options.adamw.beta2, "use for example [0.9, 0.95]");
  require_eps(options.adamw.eps);
  return make_muon_rule(options);
}

std::unique_ptr<UpdateRule> make_rule(const AdafactorOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-2");
  require(options.beta2_decay <= 0, options.beta2_decay, "optimizer.beta2_decay", "must be a finite number, 0 or less",
          "use for example -0.8");
  // As fp32, and squared, because that is what keeps 0 / sqrt(eps1^2) from being a NaN.
  require(static_cast<float>(options.eps1 * options.eps1) > 0, options.eps1, "optimizer.eps1",
          "its square must be a finite fp32 number greater than 0", "use for example 1.19e-7");
  require(options.eps2 >= 0, options.eps2, "optimizer.eps2", "must be a finite number, 0 or more",
          "use for example 1e-3");
  require(static_cast<float>(options.clip) > 0, options.clip, "optimizer.clip", "must be a finite number above 0",
          "use for example 1");
  return make_adafactor_rule(options);
}

std::unique_ptr<UpdateRule> make_rule(const OwnRuleOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-3");
  if (options.rule == nullptr)
    throw ConfigError("optimizer.rule", "null", "there is no rule", "give a shared_ptr to one");
  const std::vector<StateSpec> states = options.rule->states();
  const bool fp32 =
      std::ranges::all_of(states, [](const StateSpec& s) { return s.dtype == DType::kFloat32 && !s.coded(); });
  if (states.size() > kMostOwnStates || !fp32)
    throw ConfigError("optimizer.rule", std::string(options.rule->name()),
                      fmt::format("it has {} states{}", states.size(), fp32 ? "" : ", not all of them fp32"),
                      fmt::format("a rule has {} at most, of fp32", kMostOwnStates));
  return std::make_unique<SharedRule>(options.rule);
}

}  // namespace

std::vector<Access> UpdateSpan::accesses() const {
  const auto count = static_cast<std::size_t>(numel);
  const std::size_t num_scales = (count + kCodeBlock - 1) / kCodeBlock;
  std::vector<Access> all{changes(std::span(parameter, count))};
  if (gradient != nullptr) all.push_back(reads(std::span(gradient, count * size_of(gradient_dtype))));
  for (float* const state : states)
    if (state != nullptr) all.push_back(changes(std::span(state, count)));
  for (const CodedState& state : coded) {
    if (state.codes == nullptr) continue;
    all.push_back(changes(std::span(state.codes, count)));
    all.push_back(changes(std::span(state.scales, num_scales)));
  }
  if (low_precision != nullptr) all.push_back(writes(std::span(low_precision, count * size_of(low_precision_dtype))));
  return all;
}

void UpdateRule::queue(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars) const {
  const QueuedUpdate queued{this, span, scalars};
  const std::vector<Access> accesses = span.accesses();
  device.run(lane, {kOwnUpdate, std::as_bytes(std::span(&queued, 1)), accesses});
}

UpdateSpan UpdateSpan::part(std::int64_t begin, std::int64_t count) const {
  UpdateSpan part = *this;
  if (parameter != nullptr) part.parameter += begin;
  if (gradient != nullptr) part.gradient += begin * static_cast<std::int64_t>(size_of(gradient_dtype));
  for (float*& state : part.states) {
    if (state != nullptr) state += begin;
  }
  for (CodedState& state : part.coded) state = state.from(begin);
  if (low_precision != nullptr) part.low_precision += begin * static_cast<std::int64_t>(size_of(low_precision_dtype));
  part.numel = count;
  part.first += begin;
  return part;
}

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return make_rule(chosen); }, options);
}

OptimizerSpec spec_of(const UpdateRule& rule) {
  return {.states = rule.states(), .num_reads = rule.num_sums() > 0 ? 2 : 1};
}

double learning_rate(const OptimizerOptions& options) {
  return std::visit([](const auto& chosen) { return chosen.lr; }, options);
}

std::string_view name_of(const OptimizerOptions& options) {
  if (const auto* own = std::get_if<OwnRuleOptions>(&options)) return own->rule ? own->rule->name() : "";
  constexpr std::array<std::string_view, 8> kNames{"adamw", "adam",      "sgd",  "lion",
                                                   "lamb",  "adamw8bit", "muon", "adafactor"};
  return kNames.at(options.index());
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
