#include "zero/optim/adafactor_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "zero/base/check.h"

namespace zero {
namespace {

// torch.lerp's formula: the end that is nearer is the one that is corrected.
float lerp(float from, float to, double weight) {
  const auto factor = static_cast<float>(weight < 0.5 ? weight : weight - 1);
  return (weight < 0.5 ? from : to) + factor * (to - from);
}

// Walks elements of a matrix by row and column.
class Place {
 public:
  Place(std::size_t num_columns, std::int64_t element)
      : num_columns_(num_columns),
        row_(static_cast<std::size_t>(element) / num_columns),
        column_(static_cast<std::size_t>(element) % num_columns) {}
  std::size_t row() const { return row_; }
  std::size_t column() const { return column_; }
  bool begins_row() const { return column_ == 0; }
  void next() {
    if (++column_ < num_columns_) return;
    column_ = 0;
    ++row_;
  }

 private:
  std::size_t num_columns_, row_, column_;
};

void check_span(const UpdateSpan& span) {
  ZERO_CHECK(span.first % kSumBlock == 0, "a span begins at element {}", span.first);
}

// Calls use(i, u, v) for each element of the span: its direction, and of a vector its variance after the step.
template <typename Use>
void for_each_direction(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& c, Use use) {
  if (span.numel == 0) return;
  with_type_of(span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    const auto* gradient = reinterpret_cast<const G*>(span.gradient);
    const auto direct = [&](float g, float v) { return g / std::sqrt(std::max(v, c.least_variance)); };
    if (factors.row_var.empty()) {
      for (std::int64_t i = 0; i < span.numel; ++i) {
        const float g = to_float(gradient[i]) * c.gradient_scale;
        const float v = lerp(span.states[0][i], g * g, c.weight);
        use(i, direct(g, v), v);
      }
      return;
    }
    Place place(factors.col_var.size(), span.first);
    float ratio = 0;
    for (std::int64_t i = 0; i < span.numel; ++i, place.next()) {
      if (i == 0 || place.begins_row()) ratio = factors.row_var[place.row()] / factors.row_mean;
      const float v = ratio * factors.col_var[place.column()];
      use(i, direct(to_float(gradient[i]) * c.gradient_scale, v), v);
    }
  });
}

}  // namespace

AdafactorConstants adafactor_constants(const AdafactorOptions& options, const UpdateScalars& scalars) {
  const auto step = static_cast<double>(scalars.step);
  return {.gradient_scale = static_cast<float>(scalars.gradient_scale),
          .weight = std::pow(step, options.beta2_decay),
          .eps1 = static_cast<float>(options.eps1),
          .least_variance = static_cast<float>(options.eps1 * options.eps1),
          .keep = static_cast<float>(1 - scalars.lr * scalars.weight_decay),
          .rho = std::min(scalars.lr, 1 / std::sqrt(step)),
          .eps2 = options.eps2,
          .clip = options.clip};
}

AdafactorConstants with_sums(AdafactorConstants constants, std::int64_t numel, double parameter, double direction) {
  const auto rms = [&](double sum) { return std::sqrt(sum / static_cast<double>(numel)); };
  const double alpha = std::max(constants.eps2, rms(parameter)) * constants.rho;
  constants.minus_step = static_cast<float>(-alpha / std::max(1.0, rms(direction) / constants.clip));
  return constants;
}

// Squares of neighbours in a row are one term of the row's sum, as far as they lie in one block of the parameter: no span
// cuts a block.
void add_factor_sums(const UpdateSpan& span, const AdafactorConstants& constants, std::span<ExactSum> rows,
                     std::span<ExactSum> columns) {
  check_span(span);
  if (span.numel == 0) return;
  with_type_of(span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    const auto* gradient = reinterpret_cast<const G*>(span.gradient);
    Place place(columns.size(), span.first);
    std::size_t row = place.row();
    double of_row = 0;
    for (std::int64_t i = 0; i < span.numel; ++i, place.next()) {
      if (i % kSumBlock == 0 || place.begins_row()) {
        rows[row].add(of_row);
        of_row = 0;
        row = place.row();
      }
      const auto g = static_cast<double>(to_float(gradient[i]) * constants.gradient_scale);
      of_row += g * g;
      columns[place.column()].add(g * g);
    }
    rows[row].add(of_row);
  });
}

void update_factor(std::span<float> factor, std::span<const double> sums, std::int64_t terms,
                   const AdafactorConstants& constants) {
  for (std::size_t i = 0; i < factor.size(); ++i)
    factor[i] = lerp(factor[i], static_cast<float>(sums[i] / static_cast<double>(terms)), constants.weight);
}

float row_mean(std::span<const float> row_var, const AdafactorConstants& constants) {
  double sum = 0;  // in rising order
  for (const float value : row_var) sum += value;
  return std::max(static_cast<float>(sum / static_cast<double>(row_var.size())), constants.eps1);
}

void add_adafactor_sums(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& constants,
                        ExactSum& parameter, ExactSum& direction) {
  check_span(span);
  std::array<float, kSumBlock> p{}, u{};
  for_each_direction(span, factors, constants, [&](std::int64_t i, float of_element, float /*variance*/) {
    const auto place = static_cast<std::size_t>(i % kSumBlock);
    p[place] = span.parameter[i];
    u[place] = of_element;
    if (i % kSumBlock != kSumBlock - 1 && i != span.numel - 1) return;
    parameter.add(block_sum_of_squares(p.data()));
    direction.add(block_sum_of_squares(u.data()));
    p.fill(0);
    u.fill(0);
  });
}

void adafactor_update(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& constants) {
  check_span(span);
  for_each_direction(span, factors, constants, [&](std::int64_t i, float of_element, float variance) {
    if (factors.row_var.empty()) span.states[0][i] = variance;
    float& p = span.parameter[i];
    p = p * constants.keep + constants.minus_step * of_element;
  });
  span.write_low_precision();
}

}  // namespace zero
