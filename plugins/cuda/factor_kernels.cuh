// Adafactor's kernels: row_squares_kernel(), column_squares_kernel(), factor_kernel(), row_mean_kernel(),
// adafactor_sums_kernel(), adafactor_kernel().
#pragma once

#include "plugins/cuda/block_sum.cuh"
#include "plugins/cuda/bodies/adafactor_body.h"

namespace zero::bodies {

constexpr std::int64_t kMostColumns = INT32_MAX;  // limit of MatrixPlaces

// A thread's sum of one row, until the next row begins.
class RowSum {
 public:
  __device__ explicit RowSum(SumLimbs* rows) : rows_(rows) {}
  __device__ void add(std::int64_t row, double term) {
    if (row != row_) flush();
    row_ = row;
    if (!sum_.add(term)) add_term_to(rows_[row], term, AtomicAdder());
  }
  __device__ void flush() {
    if (row_ >= 0) sum_.add_to(rows_[row_], AtomicAdder());
    sum_ = {};
  }

 private:
  SumLimbs* rows_;
  std::int64_t row_ = -1;
  WideSum sum_;
};

// A tile's blocks of kSumBlock elements: each group of sixteen threads takes several consecutive blocks.
constexpr int kGroups = kThreads / kSumBlock;
constexpr int kGroupBlocks = kTileNumel / kSumBlock / kGroups;

__global__ void __launch_bounds__(kThreads)
    row_squares_kernel(const __grid_constant__ FactorSquaresArguments a, const __grid_constant__ Slice slice) {
  const std::int64_t num_tiles = (slice.numel + kTileNumel - 1) / kTileNumel;
  const std::uint32_t lane = threadIdx.x % kSumBlock, group = threadIdx.x / kSumBlock;
  for (std::int64_t tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    const std::int64_t begin = tile * kTileNumel;
    const MatrixPlaces places(slice.begin + begin, a.matrix.columns);
    RowSum sum(a.rows);
    with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
      // A warp's two groups run the same loops: both iterate over the larger number of rows.
      for (std::uint32_t block = 0; block < kGroupBlocks; ++block) {
        const auto first = static_cast<std::uint32_t>((group * kGroupBlocks + block) * kSumBlock);
        const bool has_element = begin + first + lane < slice.numel;
        const double square = has_element ? gradient_square<G>(slice, a.gradient_scale, begin + first + lane) : 0.0F;
        const std::int64_t row = places.row(first + lane);
        const auto num_rows = static_cast<unsigned>(places.row(first + kSumBlock - 1) - places.row(first) + 1);
        const unsigned most_rows = __reduce_max_sync(kAllLanes32, num_rows);
        for (unsigned r = 0; r < most_rows; ++r) {
          const std::int64_t this_row = places.row(first) + r;
          const double term = whole_term(row == this_row ? square : 0.0, ExchangeThreads());
          // Rows that begin after the span have no sum.
          if (lane == 0 && r < num_rows && this_row < a.matrix.rows) sum.add(this_row, term);
        }
      }
    });
    if (lane == 0) sum.flush();
  }
}

constexpr std::int64_t kStripRows = 128;

// A thread sums one column in a strip of rows.
__global__ void __launch_bounds__(kThreads)
    column_squares_kernel(const __grid_constant__ FactorSquaresArguments a, const __grid_constant__ Slice slice) {
  const std::int64_t columns = a.matrix.columns, across = (columns + kThreads - 1) / kThreads;
  const std::int64_t first_row = slice.begin / columns, end_row = (slice.begin + slice.numel - 1) / columns + 1;
  const std::int64_t strips = (end_row - first_row + kStripRows - 1) / kStripRows;
  for (std::int64_t piece = blockIdx.x; piece < across * strips; piece += gridDim.x) {
    const std::int64_t column = piece % across * kThreads + threadIdx.x;
    if (column >= columns) continue;
    const std::int64_t from = first_row + piece / across * kStripRows;
    const std::int64_t to = from + kStripRows < end_row ? from + kStripRows : end_row;
    WideSum sum;
    with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
      for (std::int64_t row = from; row < to; ++row) {
        const std::int64_t i = row * columns + column - slice.begin;
        if (i < 0 || i >= slice.numel) continue;
        const double square = gradient_square<G>(slice, a.gradient_scale, i);
        if (!sum.add(square)) add_term_to(a.columns[column], square, AtomicAdder());
      }
    });
    sum.add_to(a.columns[column], AtomicAdder());
  }
}

__global__ void __launch_bounds__(kThreads) factor_kernel(const __grid_constant__ FactorArguments a) {
  for_each_element(a.numel, [&](std::int64_t i) {
    a.factor[i] = update_factor_element(a.factor[i], a.sums[i], a.terms, a.constants);
  });
}

// One thread adds in ascending order; the other threads load for it.
__global__ void row_mean_kernel(const __grid_constant__ RowMeanArguments a) {
  __shared__ float values[kThreads];
  double sum = 0;
  for (std::int64_t begin = 0; begin < a.numel; begin += kThreads) {
    const std::int64_t count = a.numel - begin < kThreads ? a.numel - begin : kThreads;
    if (threadIdx.x < count) values[threadIdx.x] = a.row_var[begin + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0)
      for (int i = 0; i < count; ++i) sum = add(sum, static_cast<double>(values[i]));
    __syncthreads();
  }
  if (threadIdx.x == 0) *a.mean = row_mean_of(sum, a.numel, a.constants);
}

__device__ inline AdafactorBody body_of(const FactoredConstants& c) {
  return {c, c.row_mean != nullptr ? *c.row_mean : 0.0F};
}

// Calls use(body, slice, low, element, direction, i) for each element of a tile. With `whole_warps` all threads of a
// warp make the same calls, and elements beyond the end are zeros.
template <typename Use>
__device__ void for_each_direction(const SliceTable<FactoredConstants>& table, std::size_t which, std::int64_t begin,
                                   std::int64_t end, bool whole_warps, Use use) {
  const Slice slice = table.slices[which];
  const AdafactorBody body = body_of(table.constants[which]);
  const MatrixPlaces places(slice.begin + begin, body.c.matrix.columns);
  const std::int64_t last = whole_warps ? begin + (end - begin + 31) / 32 * 32 : end;
  with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low> low) {
    for (std::int64_t i = begin + threadIdx.x; i < last; i += kThreads) {
      Element e;
      float u = 0;
      if (i < end) {
        e = body.is_factored() ? load_element<0, G>(slice, body.c.constants.gradient_scale, i)
                               : load_element<1, G>(slice, body.c.constants.gradient_scale, i);
        const auto at = static_cast<std::uint32_t>(i - begin);
        u = body.direction(e, places.row(at), places.column(at));
      }
      use(body, slice, low, e, u, i);
    }
  });
}

__global__ void __launch_bounds__(kThreads)
    adafactor_kernel(const __grid_constant__ SliceTable<FactoredConstants> table) {
  for_each_tile(table, [&](std::size_t which, std::int64_t begin, std::int64_t end) {
    for_each_direction(table, which, begin, end, /*whole_warps=*/false,
                       [&]<typename Low>(const AdafactorBody& body, const Slice& slice, std::type_identity<Low>,
                                         Element e, float u, std::int64_t i) {
                         body.step(e, u);
                         if (body.is_factored()) {
                           store_element<0, Low>(slice, e, i);
                         } else {
                           store_element<1, Low>(slice, e, i);
                         }
                       });
  });
}

__global__ void __launch_bounds__(kThreads)
    adafactor_sums_kernel(const __grid_constant__ SliceTable<FactoredConstants> table,
                          const __grid_constant__ SumPlaces places) {
  TwoSums sums(places);
  for_each_tile(table, [&](std::size_t which, std::int64_t begin, std::int64_t end) {
    sums.begin(which);
    for_each_direction(
        table, which, begin, end, /*whole_warps=*/true,
        [&](const AdafactorBody&, const Slice&, auto, const Element& e, float u, std::int64_t) { sums.add(e.p, u); });
  });
  sums.flush();
}

}  // namespace zero::bodies
