// kMatrixSquares, kMatrixNorm, kMatrixDivide, kMatrixTranspose: newton_schulz()'s kernels beside its products
// (matrix_product.h), with their host code. They are the sum of squares, the norm, the division by the norm, and a
// transpose.
//
//   device.fill(lane, std::as_writable_bytes(std::span(&norm->squares, 1)), std::byte{0});
//   run(device, lane, kMatrixSquares, arguments, {reads(values), changes(norm)});     // adds to norm->squares
//   run(device, lane, kMatrixNorm, arguments, {changes(norm)});                       // norm->divisor
//   run(device, lane, kMatrixDivide, arguments, {changes(values), reads(norm)});
//
// A term of the sum has the squares of kSumBlock consecutive elements, counted from the matrix's first
// (block_sum_of_squares()). The last block is padded with zeros. Terms are added exactly. Local.
#pragma once

#include <cstdint>

#include "zero/base/numbers/exact_sum.h"
#include "zero/device/kernel.h"

namespace zero {

struct MatrixNorm {
  SumLimbs squares;
  float divisor = 1;  // max(norm, least), rounded to fp32
};

struct MatrixNormArguments {
  float* values = nullptr;
  std::int64_t numel = 0;
  MatrixNorm* norm = nullptr;
  double least = 0;  // lower bound of the divisor
};
extern const Kernel kMatrixSquares, kMatrixNorm, kMatrixDivide;

// Writes the transpose of `from` to `to`; they must not overlap.
struct TransposeArguments {
  const float* from = nullptr;  // rows x columns, row-major
  std::int64_t rows = 0, columns = 0;
  float* to = nullptr;
};
extern const Kernel kMatrixTranspose;

ExactSum squares_of(const float* values, std::int64_t numel);
// Returns the divisor from the squared norm.
float norm_divisor(double squares, double least);
// Writes rows [begin, end) of the transpose.
void transpose(const TransposeArguments& arguments, std::int64_t begin, std::int64_t end);

}  // namespace zero
