// The inner loops of Adafactor (Shazeer and Stern, arXiv:1804.04235, algorithms 4 and 5 without a first moment), with the
// choices of torch.optim.Adafactor: a matrix keeps a mean square of each row and of each column in the place of one for
// each element.
//
//   g = gradient * gradient_scale;   w = step^beta2_decay
//   R = lerp(R, mean of g^2 over a row, w);   C = lerp(C, mean of g^2 over a column, w)
//   V = R / max(mean of R, eps1) * C          of a vector: V = lerp(V, g^2, w), which is its state
//   u = g / sqrt(max(V, eps1^2))
//   p = p * (1 - lr * weight_decay) - alpha / max(1, rms(u) / clip) * u
//   alpha = max(eps2, rms(p) before the step) * min(lr, 1 / sqrt(step))
//
// States and elements are fp32, every operation rounded on its own. Sums over a row, a column or a parameter are exact
// before they are rounded, so that neither threads nor the partition change a bit. A caller with a part of a parameter:
//
//   add_factor_sums(part, constants, rows, columns);               // then sums of all parts are added
//   update_factor(row_var, row_sums, shape.columns, constants);    // and of columns: on every rank, both are whole
//   const auto ratios = row_ratios(shape, row_var, constants);
//   add_adafactor_sums(part, {ratios, col_var}, constants, parameter, direction);     // again of all parts
//   adafactor_update(part, {ratios, col_var}, with_sums(constants, ...));
//
// Parts begin at multiples of kSumBlock in their parameter, and end there or at its end. Local, all of it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "zero/base/exact_sum.h"
#include "zero/optim/update_rule.h"

namespace zero {

// Defaults are torch.optim.Adafactor's.
struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  double eps1 = std::numeric_limits<float>::epsilon();
  double eps2 = 1e-3;  // least rms of a parameter that scales its step
  double clip = 1;     // torch's d: rms of a direction from which it is shortened
  double weight_decay = 0;
};

// A parameter as `batch` matrices: its last two dimensions are rows and columns, as torch has it. `factored()` is false
// for a parameter with fewer dimensions: it is a vector.
struct FactorShape {
  std::int64_t batch = 1, rows = 0, columns = 0;
  static FactorShape of(std::span<const std::int64_t> shape);
  bool factored() const { return rows > 0; }
  std::int64_t num_rows() const { return batch * rows; }        // elements of R
  std::int64_t num_columns() const { return batch * columns; }  // elements of C
};

// What is the same for every element of a parameter.
struct AdafactorConstants {
  float gradient_scale = 1;
  double weight = 1;         // of new squares
  float eps1 = 0;            // least mean of R
  float least_variance = 0;  // eps1^2
  float keep = 1;            // 1 - lr * weight_decay
  float minus_step = 0;      // after with_sums()
  double rho = 0, eps2 = 0, clip = 1;
};
AdafactorConstants adafactor_constants(const AdafactorOptions& options, const UpdateScalars& scalars);
// `numel`: of the parameter; the sums: of squares of all its elements before the step, and of all its directions.
AdafactorConstants with_sums(AdafactorConstants constants, std::int64_t numel, double parameter, double direction);

// Elements [first, first + span.numel) of a parameter. Of a vector, state 0 of the span is V.
struct FactorPart {
  UpdateSpan span;
  FactorShape shape;
  std::int64_t first = 0;
};

// Adds squares of scaled gradients to num_rows() and num_columns() sums.
void add_factor_sums(const FactorPart& part, const AdafactorConstants& constants, std::span<ExactSum> rows,
                     std::span<ExactSum> columns);
// R or C after the step; `terms`: squares in each sum.
void update_factor(std::span<float> factor, std::span<const double> sums, std::int64_t terms,
                   const AdafactorConstants& constants);
// R / max(mean of R, eps1), matrix by matrix.
std::vector<float> row_ratios(const FactorShape& shape, std::span<const float> row_var,
                              const AdafactorConstants& constants);

// Of a vector both are empty.
struct Factors {
  std::span<const float> row_ratios, col_var;
};
// Writes nothing.
void add_adafactor_sums(const FactorPart& part, const Factors& factors, const AdafactorConstants& constants,
                        ExactSum& parameter, ExactSum& direction);
// Updates the part's parameter, of a vector V too, and writes low_precision if it is not null.
void adafactor_update(const FactorPart& part, const Factors& factors, const AdafactorConstants& constants);

}  // namespace zero
