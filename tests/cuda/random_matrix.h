// RandomProduct: memory for a product of random matrices in row or column order. random_matrix(): a matrix for
// Newton-Schulz iterations.
//
//   const RandomProduct start(random, 5, 3, 7, /*special_in=*/0);
//   RandomProduct expected = start, actual = start;
//   multiply_on_host(expected.product());
//   EXPECT_TRUE(same_values(actual.out, expected.out));
#pragma once

#include "zero/optim/whole/matrix_product.h"

#include "tests/cuda/random_span.h"

namespace zero {

struct RandomProduct {
  std::int64_t rows, columns, inner;
  bool left_turned, right_turned, adds;
  Elements<float> left, right, addend, out;

  RandomProduct(Random& random, std::int64_t num_rows, std::int64_t num_columns, std::int64_t num_terms, int special_in)
      : rows(num_rows),
        columns(num_columns),
        inner(num_terms),
        left_turned(drawn(random, 2) == 0),
        right_turned(drawn(random, 2) == 0),
        adds(drawn(random, 2) == 0),
        left(random_floats(random, static_cast<std::size_t>(rows * inner), special_in)),
        right(random_floats(random, static_cast<std::size_t>(inner * columns), special_in)),
        addend(random_floats(random, static_cast<std::size_t>(rows * columns), special_in)),
        out(random_floats(random, static_cast<std::size_t>(rows * columns), special_in)) {}

  MatrixProduct product() { return product_at(left.data(), right.data(), addend.data(), out.data()); }
  // The product of copies of these arrays.
  MatrixProduct product_at(const float* left_at, const float* right_at, const float* addend_at, float* out_at) const {
    return {.left = left_turned ? MatrixView{left_at, 1, rows} : MatrixView{left_at, inner, 1},
            .right = right_turned ? MatrixView{right_at, 1, inner} : MatrixView{right_at, columns, 1},
            .out = out_at,
            .rows = rows,
            .columns = columns,
            .inner = inner,
            .scale = adds ? 0.7F : 1.0F,
            .addend = adds ? addend_at : nullptr,
            .addend_scale = -1.3F};
  }
};

inline void multiply_on_host(const MatrixProduct& product) {
  ThreadTeam team(1);
  multiply(product, team);
}

enum class MatrixValues { kUsual, kZeros, kTiny, kInfinite, kNaN };

inline Elements<float> random_matrix(Random& random, std::int64_t rows, std::int64_t columns, MatrixValues values) {
  Elements<float> matrix = random_floats(random, static_cast<std::size_t>(rows * columns), 0);
  float* const first = matrix.data();
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    if (values == MatrixValues::kZeros) first[i] = 0;
    if (values == MatrixValues::kTiny) first[i] *= 1e-20F;
  }
  if (values == MatrixValues::kInfinite) first[matrix.size() / 2] = -std::numeric_limits<float>::infinity();
  if (values == MatrixValues::kNaN) first[matrix.size() / 3] = std::numeric_limits<float>::quiet_NaN();
  return matrix;
}

}  // namespace zero
