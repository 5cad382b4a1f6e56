#include "zero/optim/elementwise/averaged_rule.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/elementwise/averaged_rule.cpp"
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/optim/lanes/average_lanes-inl.h"
#include "zero/optim/lanes/for_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void average_target(const float* HWY_RESTRICT parameter, float* HWY_RESTRICT average, std::int64_t numel,
                    float weight) {
  for_lanes(0, static_cast<std::size_t>(numel),
            [&](auto d, std::size_t i) { average_lanes(d, hn::LoadU(d, parameter + i), average + i, weight); });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(average_target);

namespace {

// Elements per pass: the rule's results are still in the cache. A multiple of a block of 8-bit states.
constexpr std::int64_t kPiece = 8192;
static_assert(kPiece % kCodeBlock == 0);

class AveragedRule final : public UpdateRule {
 public:
  AveragedRule(std::unique_ptr<UpdateRule> rule, double decay)
      : rule_(std::move(rule)),
        place_(states_of_elements(rule_->states()).size()),
        weight_(static_cast<float>(1 - decay)) {}
  std::string_view name() const override { return rule_->name(); }
  std::vector<StateSpec> states() const override {
    std::vector<StateSpec> states = rule_->states();
    states.push_back({std::string(kAverageState)});
    return states;
  }
  int num_sums() const override { return rule_->num_sums(); }
  void add_sums(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> sums) const override {
    rule_->add_sums(without_average(span), scalars, sums);
  }
  void queue_sums(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars,
                  std::span<SumLimbs> sums) const override {
    rule_->queue_sums(device, lane, without_average(span), scalars, sums);
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    if (rule_->keeps_average() && scalars.step > 1) return rule_->update(with_average(span), scalars);
    for (std::int64_t begin = 0; begin < span.numel; begin += kPiece) {
      const UpdateSpan piece = span.part(begin, std::min(kPiece, span.numel - begin));
      float* const average = piece.states[place_];
      if (scalars.step == 1) std::copy_n(piece.parameter, piece.numel, average);
      rule_->update(without_average(piece), scalars);
      HWY_DYNAMIC_DISPATCH(average_target)(piece.parameter, average, piece.numel, weight_);
    }
  }
  // Queues all spans at once with the rule's own kernels, then one average kernel per span.
  void queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const override {
    std::vector<SpanUpdate> of_rule;
    for (const SpanUpdate& update : updates) {
      if (update.scalars.step == 1)
        device.copy(lane, std::as_writable_bytes(average_of(update.span)), std::as_bytes(parameter_of(update.span)));
      of_rule.push_back({without_average(update.span), update.scalars});
    }
    rule_->queue(device, lane, of_rule);
    for (const SpanUpdate& update : updates) {
      const std::span<float> parameter = parameter_of(update.span), average = average_of(update.span);
      run(device, lane, kAverage, AverageArguments{parameter.data(), average.data(), update.span.numel, weight_},
          {reads(parameter), changes(average)});
    }
  }
  const MatrixRule* matrices() const override { return rule_->matrices(); }
  const FactorRule* factors() const override { return rule_->factors(); }

 private:
  static std::span<float> parameter_of(const UpdateSpan& span) {
    return {span.parameter, static_cast<std::size_t>(span.numel)};
  }
  std::span<float> average_of(const UpdateSpan& span) const {
    return {span.states[place_], static_cast<std::size_t>(span.numel)};
  }
  UpdateSpan without_average(UpdateSpan span) const {
    span.states[place_] = nullptr;
    return span;
  }
  // For a rule that updates the average in its own pass.
  UpdateSpan with_average(const UpdateSpan& span) const {
    UpdateSpan own = without_average(span);
    own.average = span.states[place_];
    own.average_weight = weight_;
    return own;
  }

  std::unique_ptr<UpdateRule> rule_;
  std::size_t place_;
  float weight_;
};

void average(const AverageArguments& a) {
  HWY_DYNAMIC_DISPATCH(average_target)(a.parameter, a.average, a.numel, a.weight);
}

void exchange(const ExchangeArguments& a) {
  std::swap_ranges(a.parameter, a.parameter + a.numel, a.average);
  const UpdateSpan span{.parameter = a.parameter,
                        .low_precision = a.low_precision,
                        .low_precision_dtype = a.low_precision_dtype,
                        .numel = a.numel};
  span.write_low_precision();
}

class Exchange final : public UpdateRule {
 public:
  explicit Exchange(std::vector<StateSpec> states) : states_(states_of_elements(std::move(states))) {}
  std::string_view name() const override { return "exchange"; }
  std::vector<StateSpec> states() const override { return states_; }
  void update(const UpdateSpan& span, const UpdateScalars& /*scalars*/) const override { exchange(arguments_of(span)); }
  void queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const override {
    for (const SpanUpdate& update : updates) {
      const ExchangeArguments arguments = arguments_of(update.span);
      const std::vector<Access> accesses = update.span.accesses();
      device.run(lane, {kExchange, std::as_bytes(std::span(&arguments, 1)), accesses});
    }
  }

 private:
  ExchangeArguments arguments_of(const UpdateSpan& span) const {
    return {.parameter = span.parameter,
            .average = span.states[states_.size() - 1],
            .low_precision = span.low_precision,
            .low_precision_dtype = span.low_precision_dtype,
            .numel = span.numel};
  }

  std::vector<StateSpec> states_;
};

}  // namespace

const Kernel kAverage = kernel_of<AverageArguments, &average>("average");
const Kernel kExchange = kernel_of<ExchangeArguments, &exchange>("exchange");

std::unique_ptr<UpdateRule> with_average(std::unique_ptr<UpdateRule> rule, double decay) {
  require_number("train.ema", decay, {.least = 0, .most = 1, .above_least = true, .below_most = true},
                 "use for example 0.999");
  if (rule->states().size() >= kMostStates)
    throw ConfigError("train.ema", fmt::format("{}", decay),
                      fmt::format("{} has {} states already, the most that a rule may have", rule->name(), kMostStates),
                      "leave train.ema out");
  return std::make_unique<AveragedRule>(std::move(rule), decay);
}

std::unique_ptr<UpdateRule> make_exchange(const UpdateRule& averaged) {
  return std::make_unique<Exchange>(averaged.states());
}

}  // namespace zero
#endif  // HWY_ONCE
