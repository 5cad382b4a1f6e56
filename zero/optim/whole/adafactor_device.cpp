// The host's code of Adafactor's kernels. It calls the functions of adafactor_kernel.h and factor_squares.h.
#include <vector>

#include "zero/optim/whole/adafactor_kernel.h"
#include "zero/optim/whole/factor_squares.h"

namespace zero {
namespace {

void add_to_limbs(const std::vector<ExactSum>& sums, SumLimbs* limbs) {
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add_to(limbs[i]);
}

void factor_squares_host(const FactorSquaresArguments& a) {
  std::vector<ExactSum> rows(static_cast<std::size_t>(a.matrix.rows));
  std::vector<ExactSum> columns(static_cast<std::size_t>(a.matrix.columns));
  std::mutex lock;
  add_factor_sums(a.span, a.gradient_scale, rows, columns, lock);
  add_to_limbs(rows, a.rows);
  add_to_limbs(columns, a.columns);
}

void factor_host(const FactorArguments& a) {
  const auto numel = static_cast<std::size_t>(a.numel);
  update_factor({a.factor, numel}, {a.sums, numel}, a.terms, a.constants);
}

void row_mean_host(const RowMeanArguments& a) {
  *a.mean = row_mean({a.row_var, static_cast<std::size_t>(a.numel)}, a.constants);
}

Factors factors_of(const FactoredConstants& c) {
  if (c.row_var == nullptr) return {};
  return {.row_var = {c.row_var, static_cast<std::size_t>(c.matrix.rows)},
          .col_var = {c.col_var, static_cast<std::size_t>(c.matrix.columns)},
          .row_mean = *c.row_mean};
}

void adafactor_sums_host(const AdafactorSumsArguments& a) {
  for (std::size_t i = 0; i < a.slices.count; ++i) {
    const FactoredConstants& c = a.slices.constants[i];
    ExactSum parameter, direction;
    add_adafactor_sums(a.slices.spans[i], factors_of(c), c.constants, parameter, direction);
    parameter.add_to(*a.parameter[i]);
    direction.add_to(*a.direction[i]);
  }
}

void adafactor_slice(const UpdateSpan& span, const FactoredConstants& c) {
  adafactor_update(span, factors_of(c), c.constants);
}

}  // namespace

const Kernel kFactorSquares = kernel_of<FactorSquaresArguments, &factor_squares_host>("factor_squares");
const Kernel kFactor = kernel_of<FactorArguments, &factor_host>("factor");
const Kernel kRowMean = kernel_of<RowMeanArguments, &row_mean_host>("row_mean");
const Kernel kAdafactorSums = kernel_of<AdafactorSumsArguments, &adafactor_sums_host>("adafactor_sums");
const Kernel kAdafactor = kernel_of<AdafactorArguments, &update_each<FactoredConstants, &adafactor_slice>>("adafactor");

}  // namespace zero
