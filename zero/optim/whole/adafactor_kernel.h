// adafactor_update(): the inner loops of Adafactor (Shazeer and Stern, arXiv:1804.04235, algorithms 4 and 5 without a
// first moment), with the choices of torch.optim.Adafactor. A matrix keeps a mean square per row and per column.
//
//   g = gradient * gradient_scale;   w = step^beta2_decay
//   R = lerp(R, mean of g^2 over a row, w);   C = lerp(C, mean of g^2 over a column, w)
//   V = R / max(mean of R, eps1) * C          of a vector: V = lerp(V, g^2, w), which is its state
//   u = g / sqrt(max(V, eps1^2))       of a matrix: g * min(1 / sqrt(R / max(mean of R, eps1)) * 1 / sqrt(C), 1 / eps1)
//   p = p * (1 - lr * weight_decay) - alpha / max(1, rms(u) / clip) * u
//   alpha = max(eps2, rms(p) before the step) * min(lr, 1 / sqrt(step))
//
// States and elements are fp32, and every operation is rounded by itself. Sums over a row, column or parameter are
// exact before rounding, so neither threads nor the partition change a bit. Spans begin at multiples of kSumBlock in
// their parameter, and end at such a multiple or at the parameter's end. Local, all of it.
#pragma once

#include <cstdint>
#include <span>

#include "zero/base/numbers/exact_sum.h"
#include "zero/optim/rule/update_slices.h"
#include "zero/optim/whole/adafactor_rule.h"

namespace zero {

// A caller with a span of a parameter:
//
//   add_factor_sums(span, gradient_scale, rows, columns, lock);    // factor_squares.h; then add the sums of all spans
//   update_factor(row_var, row_sums, num_columns, constants);     // the same for columns; both are whole on every rank
//   const Factors factors{row_var, col_var, row_mean(row_var, constants)};
//   add_adafactor_sums(span, factors, constants, parameter, direction);     // then add the sums of all spans
//   adafactor_update(span, factors, with_sums(constants, ...));
//
// AdafactorConstants are the same for every element of a parameter.
struct AdafactorConstants {
  float gradient_scale = 1;
  // lerp(v, x, w) is v + w (x - v) for w < 1/2, else x - (1 - w) (x - v). w is the weight of new squares.
  bool lerp_from_square = true;  // the second form
  float lerp_factor = 0;         // w, or -(1 - w)
  float eps1 = 0;                // lower bound of the mean of R
  float least_variance = 0;      // eps1^2
  float most_scale = 0;          // 1 / eps1
  float keep = 1;                // 1 - lr * weight_decay
  float minus_step = 0;          // set by with_sums()
  double rho = 0, eps2 = 0, clip = 1;
};
AdafactorConstants adafactor_constants(const AdafactorOptions& options, const UpdateScalars& scalars);
// Adds the parameter's sums to the constants. `numel`: elements of the parameter. `parameter`, `direction`: sums of the
// squares of all its elements before the step, and of all its directions.
AdafactorConstants with_sums(AdafactorConstants constants, std::int64_t numel, double parameter, double direction);

// Updates R or C for the step. `terms`: number of squares in each sum.
void update_factor(std::span<float> factor, std::span<const double> sums, std::int64_t terms,
                   const AdafactorConstants& constants);
// Returns max(mean of R, eps1).
float row_mean(std::span<const float> row_var, const AdafactorConstants& constants);

// Adds the squares of the span's parameter and directions to the sums, and writes nothing else. `factors`: empty for a
// vector, whose V is state 0 of the span.
void add_adafactor_sums(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& constants,
                        ExactSum& parameter, ExactSum& direction);
// Updates the span's parameter, and V of a vector. Writes low_precision if it is not null.
void adafactor_update(const UpdateSpan& span, const Factors& factors, const AdafactorConstants& constants);

// The same functions as device kernels; all pointers are to device memory.
//
// Runs add_factor_sums() (factor_squares.h) with sums as limbs: one for each row, and one for each column.
struct FactorSquaresArguments {
  UpdateSpan span;
  float gradient_scale = 1;
  SumLimbs* rows = nullptr;
  SumLimbs* columns = nullptr;
  MatrixShape matrix{};
};
extern const Kernel kFactorSquares;
// Runs update_factor().
struct FactorArguments {
  float* factor = nullptr;
  const double* sums = nullptr;
  std::int64_t numel = 0;
  std::int64_t terms = 0;
  AdafactorConstants constants{};
};
extern const Kernel kFactor;
// Runs row_mean(), and writes it to *mean.
struct RowMeanArguments {
  const float* row_var = nullptr;
  float* mean = nullptr;
  std::int64_t numel = 0;
  AdafactorConstants constants{};
};
extern const Kernel kRowMean;

// The constants of a slice. A vector has no states of rows and columns.
struct FactoredConstants {
  AdafactorConstants constants{};
  const float* row_var = nullptr;
  const float* col_var = nullptr;
  const float* row_mean = nullptr;
  MatrixShape matrix{};
};
using AdafactorArguments = UpdateSlices<FactoredConstants>;
// kAdafactorSums runs add_adafactor_sums() for each slice, with sums as limbs. kAdafactor runs adafactor_update().
struct AdafactorSumsArguments {
  AdafactorArguments slices;
  std::array<SumLimbs*, AdafactorArguments::kMost> parameter{}, direction{};
};
extern const Kernel kAdafactorSums;
extern const Kernel kAdafactor;

}  // namespace zero
