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

// Walks elements of a part with their places in R and C.
class Place {
 public:
  Place(const FactorShape& shape, std::int64_t element)
      : rows_(shape.rows),
        columns_(shape.columns),
        row_(element / shape.columns),
        column_(element % shape.columns),
        first_column_(row_ / shape.rows * shape.columns) {}
  std::size_t row() const { return static_cast<std::size_t>(row_); }
  std::size_t column() const { return static_cast<std::size_t>(first_column_ + column_); }
  bool begins_row() const { return column_ == 0; }
  void next() {
    if (++column_ < columns_) return;
    column_ = 0;
    if (++row_ % rows_ == 0) first_column_ += columns_;
  }

 private:
  std::int64_t rows_, columns_, row_, column_, first_column_;
};

void check_part(const FactorPart& part) {
  ZERO_CHECK(part.first % kSumBlock == 0, "a part begins at element {}", part.first);
}

// Calls use(i, u, v) for each element of the part: its direction, and of a vector its variance after the step.
template <typename Use>
void for_each_direction(const FactorPart& part, const Factors& factors, const AdafactorConstants& c, Use use) {
  if (part.span.numel == 0) return;
  with_type_of(part.span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    const auto* gradient = reinterpret_cast<const G*>(part.span.gradient);
    const auto direct = [&](float g, float v) { return g / std::sqrt(std::max(v, c.least_variance)); };
    if (!part.shape.factored()) {
      for (std::int64_t i = 0; i < part.span.numel; ++i) {
        const float g = to_float(gradient[i]) * c.gradient_scale;
        const float v = lerp(part.span.states[0][i], g * g, c.weight);
        use(i, direct(g, v), v);
      }
      return;
    }
    Place place(part.shape, part.first);
    for (std::int64_t i = 0; i < part.span.numel; ++i, place.next()) {
      const float v = factors.row_ratios[place.row()] * factors.col_var[place.column()];
      use(i, direct(to_float(gradient[i]) * c.gradient_scale, v), v);
    }
  });
}

}  // namespace

FactorShape FactorShape::of(std::span<const std::int64_t> shape) {
  if (shape.size() < 2) return {};
  FactorShape factors{.rows = shape[shape.size() - 2], .columns = shape.back()};
  for (const std::int64_t size : shape.first(shape.size() - 2)) factors.batch *= size;
  return factors;
}

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

// Squares of neighbours in a row are one term of the row's sum, as far as they lie in one block of the parameter: no part
// cuts a block.
void add_factor_sums(const FactorPart& part, const AdafactorConstants& constants, std::span<ExactSum> rows,
                     std::span<ExactSum> columns) {
  check_part(part);
  if (part.span.numel == 0) return;
  with_type_of(part.span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    const auto* gradient = reinterpret_cast<const G*>(part.span.gradient);
    Place place(part.shape, part.first);
    std::size_t row = place.row();
    double of_row = 0;
    for (std::int64_t i = 0; i < part.span.numel; ++i, place.next()) {
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

std::vector<float> row_ratios(const FactorShape& shape, std::span<const float> row_var,
                              const AdafactorConstants& constants) {
  std::vector<float> ratios(row_var.begin(), row_var.end());
  const auto rows = static_cast<std::size_t>(shape.rows);
  for (std::size_t first = 0; first < ratios.size(); first += rows) {
    const std::span<float> matrix = std::span(ratios).subspan(first, rows);
    double sum = 0;  // in rising order
    for (const float value : matrix) sum += value;
    const float mean = std::max(static_cast<float>(sum / static_cast<double>(rows)), constants.eps1);
    for (float& value : matrix) value /= mean;
  }
  return ratios;
}

void add_adafactor_sums(const FactorPart& part, const Factors& factors, const AdafactorConstants& constants,
                        ExactSum& parameter, ExactSum& direction) {
  check_part(part);
  std::array<float, kSumBlock> p{}, u{};
  for_each_direction(part, factors, constants, [&](std::int64_t i, float of_element, float /*variance*/) {
    const auto place = static_cast<std::size_t>(i % kSumBlock);
    p[place] = part.span.parameter[i];
    u[place] = of_element;
    if (i % kSumBlock != kSumBlock - 1 && i != part.span.numel - 1) return;
    parameter.add(block_sum_of_squares(p.data()));
    direction.add(block_sum_of_squares(u.data()));
    p.fill(0);
    u.fill(0);
  });
}

void adafactor_update(const FactorPart& part, const Factors& factors, const AdafactorConstants& constants) {
  check_part(part);
  for_each_direction(part, factors, constants, [&](std::int64_t i, float of_element, float variance) {
    if (!part.shape.factored()) part.span.states[0][i] = variance;
    float& p = part.span.parameter[i];
    p = p * constants.keep + constants.minus_step * of_element;
  });
  part.span.write_low_precision();
}

}  // namespace zero
