// matrix_product_kernel(): a product of two matrices, with the bits of zero/optim/whole/matrix_product.h.
//
// Also has the kernels of zero/optim/whole/newton_schulz_kernels.h: matrix_squares_kernel(), matrix_norm_kernel(),
// matrix_divide_kernel(), matrix_transpose_kernel().
//
// A block computes a square of `out` with 64 or 128 rows and columns. A thread computes 16 or 64 elements of it, whose
// sums stay in registers from the first term to the last. Terms are added in ascending order, kTermsAtOnce at a time.
// While a block multiplies these, it loads the next terms from device memory into registers, and then stores them in
// the other half of its shared memory. No sum is split among threads, because another order has other bits. Rows and
// columns beyond a matrix are zeros, and are not stored. No missing term is added, because even a product of zeros
// could change the sign of a zero.
#pragma once

#include "zero/optim/whole/matrix_product.h"
#include "zero/optim/whole/newton_schulz_kernels.h"

#include "plugins/cuda/block_sum.cuh"
#include "plugins/cuda/blocks.cuh"

namespace zero::bodies {

constexpr int kTermsAtOnce = 8;
constexpr int kThreadsAcross = 16;  // threads per row of a block's square, and per column
constexpr int kQuarter = 64;        // rows and columns of `out` that these threads cover with one Pack each

// Returns the number of squares, one block each. A symmetric product has those on and above the diagonal.
ZERO_BODY std::int64_t num_product_squares(const MatrixProduct& p, int side) {
  const std::int64_t down = (p.rows + side - 1) / side, across = (p.columns + side - 1) / side;
  return p.symmetric ? down * (down + 1) / 2 : down * across;
}

struct ProductSquare {
  std::int64_t row, column;  // its first row and column in `out`
};

__device__ inline ProductSquare product_square_at(const MatrixProduct& p, int side, std::int64_t number) {
  if (!p.symmetric) {
    const std::int64_t across = (p.columns + side - 1) / side;
    return {number / across * side, number % across * side};
  }
  std::int64_t column = 0;  // column of squares; each column has one square more than the one before
  while (number > column) number -= ++column;
  return {number * side, column * side};
}

// A thread's part of the loads of one operand: kSide lines (rows of `left`, columns of `right`) by kTermsAtOnce terms.
// Neighbouring threads read neighbouring elements in either storage order.
template <int kSide>
class OperandPart {
 public:
  static constexpr int kNumel = kSide * kTermsAtOnce / kThreads;
  // By term. The extra pack per term avoids bank conflicts of threads that store.
  using Shared = Pack<float>[kTermsAtOnce][kSide / 4 + 1];

  __device__ OperandPart(const float* data, std::int64_t line_stride, std::int64_t term_stride, std::int64_t first_line,
                         std::int64_t num_lines)
      : term_stride_(term_stride) {
    const int thread = static_cast<int>(threadIdx.x);
    const bool along_terms = term_stride == 1;
    line_ = along_terms ? thread / kTermsAtOnce : thread % kSide;
    term_ = along_terms ? thread % kTermsAtOnce : thread / kSide;
    line_step_ = along_terms ? kThreads / kTermsAtOnce : 0;
    term_step_ = along_terms ? 0 : kThreads / kSide;
    const std::int64_t lines = num_lines - first_line;
    num_lines_ = lines < kSide ? static_cast<int>(lines) : kSide;
    from_ = data + (first_line + line_) * line_stride + term_ * term_stride;
    step_ = line_step_ * line_stride + term_step_ * term_stride;
  }
  __device__ void load(std::int64_t first_term, std::int64_t num_terms, float (&values)[kNumel]) const {
    const float* const from = from_ + first_term * term_stride_;
    const std::int64_t terms = num_terms - first_term;
    ZERO_UNROLL
    for (int i = 0; i < kNumel; ++i) {
      const bool is_there = line_ + i * line_step_ < num_lines_ && term_ + i * term_step_ < terms;
      values[i] = is_there ? from[i * step_] : 0.0F;
    }
  }
  __device__ void store(const float (&values)[kNumel], Shared& to) const {
    ZERO_UNROLL
    for (int i = 0; i < kNumel; ++i) {
      const int line = line_ + i * line_step_;
      to[term_ + i * term_step_][line / 4].values[line % 4] = values[i];
    }
  }

 private:
  const float* from_;
  std::int64_t step_, term_stride_;
  int line_, term_, line_step_, term_step_, num_lines_;
};

// Adds one term to each of a thread's sums: kParts packs of rows by kParts packs of columns.
template <int kParts>
__device__ void add_term(const Pack<float>* left, const Pack<float>* right, float (&sums)[4 * kParts][4 * kParts]) {
  const int across = static_cast<int>(threadIdx.x) % kThreadsAcross;
  const int down = static_cast<int>(threadIdx.x) / kThreadsAcross;
  Pack<float> rows[kParts], columns[kParts];
  ZERO_UNROLL
  for (int part = 0; part < kParts; ++part) {
    rows[part] = left[part * kThreadsAcross + down];
    columns[part] = right[part * kThreadsAcross + across];
  }
  ZERO_UNROLL
  for (int i = 0; i < 4 * kParts; ++i) {
    ZERO_UNROLL
    for (int j = 0; j < 4 * kParts; ++j)
      sums[i][j] = fused(rows[i / 4].values[i % 4], columns[j / 4].values[j % 4], sums[i][j]);
  }
}

// kParts: 1 for squares of 64 rows and columns, 2 for 128. One block for each of num_product_squares().
template <int kParts>
__global__ void __launch_bounds__(kThreads, 2) matrix_product_kernel(const __grid_constant__ MatrixProduct p) {
  constexpr int kSide = kQuarter * kParts;
  using Part = OperandPart<kSide>;
  __shared__ typename Part::Shared left[2], right[2];
  const ProductSquare at = product_square_at(p, kSide, blockIdx.x);
  const Part of_left(p.left.data, p.left.row_stride, p.left.column_stride, at.row, p.rows);
  const Part of_right(p.right.data, p.right.column_stride, p.right.row_stride, at.column, p.columns);
  float sums[4 * kParts][4 * kParts] = {};
  float next_left[Part::kNumel], next_right[Part::kNumel];
  of_left.load(0, p.inner, next_left);
  of_right.load(0, p.inner, next_right);
  of_left.store(next_left, left[0]);
  of_right.store(next_right, right[0]);
  __syncthreads();
  int half = 0;
  for (std::int64_t first = 0; first < p.inner; first += kTermsAtOnce, half = 1 - half) {
    const std::int64_t rest = p.inner - first;
    const bool goes_on = rest > kTermsAtOnce;
    if (goes_on) {
      of_left.load(first + kTermsAtOnce, p.inner, next_left);
      of_right.load(first + kTermsAtOnce, p.inner, next_right);
    }
    if (rest >= kTermsAtOnce) {
      ZERO_UNROLL
      for (int term = 0; term < kTermsAtOnce; ++term) add_term<kParts>(left[half][term], right[half][term], sums);
    } else {
      for (int term = 0; term < static_cast<int>(rest); ++term)
        add_term<kParts>(left[half][term], right[half][term], sums);
    }
    if (goes_on) {  // no thread reads that half: all have passed the barrier after it
      of_left.store(next_left, left[1 - half]);
      of_right.store(next_right, right[1 - half]);
      __syncthreads();
    }
  }
  const int across = static_cast<int>(threadIdx.x) % kThreadsAcross;
  const int down = static_cast<int>(threadIdx.x) / kThreadsAcross;
  const bool mirrored = p.symmetric && at.row != at.column;
  ZERO_UNROLL
  for (int i = 0; i < 4 * kParts; ++i) {
    const std::int64_t row = at.row + i / 4 * kQuarter + 4 * down + i % 4;
    if (row >= p.rows) continue;
    ZERO_UNROLL
    for (int j = 0; j < 4 * kParts; ++j) {
      const std::int64_t column = at.column + j / 4 * kQuarter + 4 * across + j % 4;
      if (column >= p.columns) continue;
      const std::int64_t place = row * p.columns + column;
      float value = mul(p.scale, sums[i][j]);
      if (p.addend != nullptr) value = add(value, mul(p.addend_scale, p.addend[place]));
      p.out[place] = value;
      if (mirrored) p.out[column * p.columns + row] = value;
    }
  }
}

__global__ void __launch_bounds__(kThreads) matrix_squares_kernel(const __grid_constant__ MatrixNormArguments a) {
  BlockSum sum;
  SumLimbs* const limbs = &a.norm->squares;
  for (std::int64_t begin = blockIdx.x * kTileNumel; begin < a.numel; begin += gridDim.x * kTileNumel) {
    for (std::int64_t i = begin + threadIdx.x; i < begin + kTileNumel; i += kThreads) {
      const float value = i < a.numel ? a.values[i] : 0.0F;
      const double term = whole_term(square_of(value), ExchangeThreads());
      if (threadIdx.x % kSumBlock == 0) sum.add(term, limbs);
    }
  }
  sum.flush(limbs);
}

__global__ void matrix_norm_kernel(const __grid_constant__ MatrixNormArguments a) {
  const double norm = root(rounded_value(a.norm->squares));
  a.norm->divisor = static_cast<float>(norm < a.least ? a.least : norm);
}

__global__ void __launch_bounds__(kThreads) matrix_divide_kernel(const __grid_constant__ MatrixNormArguments a) {
  const float divisor = a.norm->divisor;
  for_each_element(a.numel, [&](std::int64_t i) { a.values[i] = div(a.values[i], divisor); });
}

constexpr int kTurned = 32;  // rows and columns of a square that a block transposes

ZERO_BODY std::int64_t num_turned_squares(const TransposeArguments& a) {
  return (a.rows + kTurned - 1) / kTurned * ((a.columns + kTurned - 1) / kTurned);
}

__global__ void __launch_bounds__(kThreads) matrix_transpose_kernel(const __grid_constant__ TransposeArguments a) {
  __shared__ float square[kTurned][kTurned + 1];
  const std::int64_t across = (a.columns + kTurned - 1) / kTurned;
  const int x = static_cast<int>(threadIdx.x) % kTurned, y = static_cast<int>(threadIdx.x) / kTurned;
  for (std::int64_t number = blockIdx.x; number < num_turned_squares(a); number += gridDim.x) {
    const std::int64_t row = number / across * kTurned, column = number % across * kTurned;
    for (int i = y; i < kTurned; i += kThreads / kTurned)
      if (row + i < a.rows && column + x < a.columns) square[i][x] = a.from[(row + i) * a.columns + column + x];
    __syncthreads();
    for (int i = y; i < kTurned; i += kThreads / kTurned)
      if (column + i < a.columns && row + x < a.rows) a.to[(column + i) * a.rows + row + x] = square[x][i];
    __syncthreads();
  }
}

}  // namespace zero::bodies
