// AdafactorBody, MatrixPlaces: zero/optim/whole/adafactor_kernel.h by element; positions in a part of a matrix.
//
//   const MatrixPlaces places(slice.begin, columns);
//   const float u = body.direction(e, places.row(i), places.column(i));       // writes a vector's variance to e.first
//   body.step(e, u);
//
// AdafactorBody computes directions and steps. row_mean_of() and update_factor_element() update its states, and
// gradient_square() returns the terms of their sums. Local.
#pragma once

#include "zero/optim/whole/adafactor_kernel.h"

#include "plugins/cuda/bodies/slice.h"

namespace zero::bodies {

// Rows and columns of consecutive elements (fewer than 2^31). The first one is element `first` of a matrix with fewer
// than 2^31 columns. Needs one long division for all elements.
struct MatrixPlaces {
  std::int64_t first_row;
  std::uint32_t first_column, columns;
  ZERO_BODY MatrixPlaces(std::int64_t first, std::int64_t num_columns)
      : first_row(num_columns == 0 ? 0 : first / num_columns),
        first_column(static_cast<std::uint32_t>(num_columns == 0 ? 0 : first % num_columns)),
        columns(static_cast<std::uint32_t>(num_columns == 0 ? 1 : num_columns)) {}
  ZERO_BODY std::int64_t row(std::uint32_t i) const { return first_row + (first_column + i) / columns; }
  ZERO_BODY std::uint32_t column(std::uint32_t i) const { return (first_column + i) % columns; }
};

ZERO_BODY float lerp(float from, float to, const AdafactorConstants& c) {
  return add(c.lerp_from_square ? to : from, mul(c.lerp_factor, sub(to, from)));
}

// Return the smaller or larger value, or NaN if `x` is NaN.
ZERO_BODY float at_most(float x, float bound) {
  return bound < x ? bound : x;
}
ZERO_BODY float at_least(float x, float bound) {
  return x < bound ? bound : x;
}

struct AdafactorBody {
  FactoredConstants c;
  float row_mean = 0;  // *c.row_mean; only for a matrix

  ZERO_BODY bool is_factored() const { return c.row_var != nullptr; }
  ZERO_BODY float direction(Element& e, std::int64_t row, std::uint32_t column) const {
    if (!is_factored()) {
      e.first = lerp(e.first, mul(e.g, e.g), c.constants);
      return div(e.g, root(at_least(e.first, c.constants.least_variance)));
    }
    const float row_scale = div(1.0F, root(div(c.row_var[row], row_mean)));
    const float column_scale = div(1.0F, root(c.col_var[column]));
    return mul(e.g, at_most(mul(row_scale, column_scale), c.constants.most_scale));
  }
  ZERO_BODY void step(Element& e, float u) const {
    e.p = add(mul(e.p, c.constants.keep), mul(c.constants.minus_step, u));
  }
};

// Returns the term of an element in the sums of its row and column (zero/optim/whole/factor_squares.h).
template <typename G>
ZERO_BODY float gradient_square(const Slice& slice, float gradient_scale, std::int64_t i) {
  const float g = mul(to_float(reinterpret_cast<const G*>(slice.gradient)[i]), gradient_scale);
  return mul(g, g);
}

ZERO_BODY float update_factor_element(float before, double sum, std::int64_t terms, const AdafactorConstants& c) {
  return lerp(before, static_cast<float>(div(sum, static_cast<double>(terms))), c);
}

// Returns the mean. `sum`: of the states of all rows, in ascending order.
ZERO_BODY float row_mean_of(double sum, std::int64_t rows, const AdafactorConstants& c) {
  return at_least(static_cast<float>(div(sum, static_cast<double>(rows))), c.eps1);
}

}  // namespace zero::bodies
