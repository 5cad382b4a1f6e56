#include "zero/optim/whole/adafactor_rule.h"

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/optim/rule/rule_checks.h"
#include "zero/optim/whole/adafactor_kernel.h"
#include "zero/optim/whole/factor_squares.h"

namespace zero {
namespace {

class AdafactorRule final : public UpdateRule, public FactorRule {
 public:
  explicit AdafactorRule(const AdafactorOptions& options) : options_(options) {}
  std::string_view name() const override { return AdafactorOptions::kRow.name; }
  std::vector<StateSpec> states() const override {
    return {{.name = "variance", .of = StateOf::kOthers},
            {.name = "row_var", .of = StateOf::kMatrices, .per = StatePer::kRow},
            {.name = "col_var", .of = StateOf::kMatrices, .per = StatePer::kColumn}};
  }
  const FactorRule* factors() const override { return this; }

  void add_squares(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> rows,
                   std::span<ExactSum> columns, std::mutex& lock) const override {
    ZERO_CHECK(std::ssize(rows) == scalars.matrix.rows && std::ssize(columns) == scalars.matrix.columns,
               "{} and {} sums of a matrix of {} x {}", rows.size(), columns.size(), scalars.matrix.rows,
               scalars.matrix.columns);
    add_factor_sums(span, static_cast<float>(scalars.gradient_scale), rows, columns, lock);
  }
  Factors update_factors(std::span<float> row_var, std::span<float> col_var, std::span<const double> sums,
                         const UpdateScalars& scalars) const override {
    const AdafactorConstants constants = adafactor_constants(options_, scalars);
    update_factor(row_var, sums.first(row_var.size()), std::ssize(col_var), constants);
    update_factor(col_var, sums.subspan(row_var.size()), std::ssize(row_var), constants);
    return {row_var, col_var, row_mean(row_var, constants)};
  }

  void queue_squares(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars,
                     std::span<SumLimbs> rows, std::span<SumLimbs> columns) const override {
    const FactorSquaresArguments arguments{.span = span,
                                           .gradient_scale = static_cast<float>(scalars.gradient_scale),
                                           .rows = rows.data(),
                                           .columns = columns.data(),
                                           .matrix = scalars.matrix};
    run(device, lane, kFactorSquares, arguments, {span.gradient_access(), changes(rows), changes(columns)});
  }
  Factors queue_factors(Device& device, Lane lane, std::span<float> row_var, std::span<float> col_var, float* row_mean,
                        std::span<const double> sums, const UpdateScalars& scalars) const override {
    const AdafactorConstants constants = adafactor_constants(options_, scalars);
    const auto update = [&](std::span<float> factor, std::span<const double> of_factor, std::int64_t terms) {
      const FactorArguments arguments{.factor = factor.data(),
                                      .sums = of_factor.data(),
                                      .numel = std::ssize(factor),
                                      .terms = terms,
                                      .constants = constants};
      run(device, lane, kFactor, arguments, {changes(factor), reads(of_factor)});
    };
    update(row_var, sums.first(row_var.size()), std::ssize(col_var));
    update(col_var, sums.subspan(row_var.size(), col_var.size()), std::ssize(row_var));
    const RowMeanArguments mean{
        .row_var = row_var.data(), .mean = row_mean, .numel = std::ssize(row_var), .constants = constants};
    run(device, lane, kRowMean, mean, {reads(row_var), writes(std::span(row_mean, 1))});
    return {.row_var = row_var, .col_var = col_var, .row_mean_there = row_mean};
  }

  int num_sums() const override { return 2; }
  void add_sums(const UpdateSpan& span, const UpdateScalars& scalars, std::span<ExactSum> sums) const override {
    check(span, scalars);
    add_adafactor_sums(span, scalars.factors, adafactor_constants(options_, scalars), sums[0], sums[1]);
  }
  void update(const UpdateSpan& span, const UpdateScalars& scalars) const override {
    check(span, scalars);
    ZERO_CHECK(scalars.sums.size() == 2, "adafactor: {} sums", scalars.sums.size());
    const AdafactorConstants constants = adafactor_constants(options_, scalars);
    adafactor_update(span, scalars.factors, with_sums(constants, scalars.numel, scalars.sums[0], scalars.sums[1]));
  }
  void queue_sums(Device& device, Lane lane, const UpdateSpan& span, const UpdateScalars& scalars,
                  std::span<SumLimbs> sums) const override {
    check(span, scalars);
    AdafactorSumsArguments arguments;
    arguments.slices.add(span, there(adafactor_constants(options_, scalars), scalars));
    queue_two_sums(device, lane, kAdafactorSums, arguments, sums, factor_accesses(scalars.factors));
  }
  void queue(Device& device, Lane lane, std::span<const SpanUpdate> updates) const override {
    queue_slices<FactoredConstants>(
        device, lane, kAdafactor, updates,
        [this](const SpanUpdate& update) {
          const UpdateScalars& scalars = update.scalars;
          check(update.span, scalars);
          ZERO_CHECK(scalars.sums.size() == 2, "adafactor: {} sums", scalars.sums.size());
          return there(
              with_sums(adafactor_constants(options_, scalars), scalars.numel, scalars.sums[0], scalars.sums[1]),
              scalars);
        },
        [](const SpanUpdate& update) { return factor_accesses(update.scalars.factors); });
  }

 private:
  static FactoredConstants there(const AdafactorConstants& constants, const UpdateScalars& scalars) {
    if (scalars.matrix.rows == 0) return {.constants = constants};
    return {.constants = constants,
            .row_var = scalars.factors.row_var.data(),
            .col_var = scalars.factors.col_var.data(),
            .row_mean = scalars.factors.row_mean_there,
            .matrix = scalars.matrix};
  }
  static std::vector<Access> factor_accesses(const Factors& factors) {
    if (factors.row_var.empty()) return {};
    return {reads(factors.row_var), reads(factors.col_var), reads(std::span(factors.row_mean_there, 1))};
  }
  static void check(const UpdateSpan& span, const UpdateScalars& scalars) {
    ZERO_CHECK(scalars.step >= 1, "steps are counted from 1, not from {}", scalars.step);
    const bool factored = scalars.matrix.rows > 0;
    ZERO_CHECK(factored == !scalars.factors.row_var.empty(), "adafactor: a matrix without states");
    ZERO_CHECK(span.numel == 0 ||
                   (span.parameter != nullptr && span.gradient != nullptr && (factored || span.states[0] != nullptr)),
               "adafactor without memory");
  }

  AdafactorOptions options_;
};

}  // namespace

AdafactorOptions AdafactorOptions::from(const RuleKeys& keys) {
  return {.lr = keys.lr,
          .beta2_decay = keys.beta2_decay,
          .eps1 = keys.eps1,
          .eps2 = keys.eps2,
          .clip = keys.clip,
          .weight_decay = keys.weight_decay};
}

std::unique_ptr<UpdateRule> make_rule(const AdafactorOptions& options) {
  require_lr_and_decay(options.lr, options.weight_decay, "use for example 1e-2");
  require_number("optimizer.beta2_decay", options.beta2_decay, {.most = 0}, "use for example -0.8");
  // As fp32, and squared, because that is what keeps 0 / sqrt(eps1^2) from being a NaN.
  if (!kAboveZero.contains(options.eps1 * options.eps1) || options.eps1 < 0)
    throw ConfigError("optimizer.eps1", fmt::format("{}", options.eps1),
                      "its square must be a finite fp32 number greater than 0", "use for example 1.19e-7");
  require_number("optimizer.eps2", options.eps2, kAtLeastZero, "use for example 1e-3");
  require_number("optimizer.clip", options.clip, kAboveZero, "use for example 1");
  return std::make_unique<AdafactorRule>(options);
}

}  // namespace zero
