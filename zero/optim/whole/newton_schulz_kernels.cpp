#include "zero/optim/whole/newton_schulz_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace zero {

ExactSum squares_of(const float* values, std::int64_t numel) {
  ExactSum sum;
  std::int64_t i = 0;
  for (; i + kSumBlock <= numel; i += kSumBlock) sum.add(block_sum_of_squares(values + i));
  std::array<float, kSumBlock> rest{};
  std::copy(values + i, values + numel, rest.begin());
  sum.add(block_sum_of_squares(rest.data()));
  return sum;
}

float norm_divisor(double squares, double least) {
  return static_cast<float>(std::max(std::sqrt(squares), least));
}

void transpose(const TransposeArguments& a, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = begin; j < end; ++j) a.to[j * a.rows + i] = a.from[i * a.columns + j];
}

namespace {

void squares_host(const MatrixNormArguments& a) {
  squares_of(a.values, a.numel).add_to(a.norm->squares);
}

void norm_host(const MatrixNormArguments& a) {
  ExactSum sum;
  sum.add(a.norm->squares);
  a.norm->divisor = norm_divisor(sum.value(), a.least);
}

void divide_host(const MatrixNormArguments& a) {
  for (std::int64_t i = 0; i < a.numel; ++i) a.values[i] /= a.norm->divisor;
}

void transpose_host(const TransposeArguments& a) {
  transpose(a, 0, a.columns);
}

}  // namespace

const Kernel kMatrixSquares = kernel_of<MatrixNormArguments, &squares_host>("matrix_squares");
const Kernel kMatrixNorm = kernel_of<MatrixNormArguments, &norm_host>("matrix_norm");
const Kernel kMatrixDivide = kernel_of<MatrixNormArguments, &divide_host>("matrix_divide");
const Kernel kMatrixTranspose = kernel_of<TransposeArguments, &transpose_host>("matrix_transpose");

}  // namespace zero
