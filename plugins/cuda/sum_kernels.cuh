// rank_sum_kernel(): the sum over ranks in their order, with statistics. lamb_sums_kernel(): LAMB's sums over
// parameters.
#pragma once

#include "plugins/cuda/block_sum.cuh"
#include "plugins/cuda/blocks.cuh"
#include "plugins/cuda/bodies/element_bodies.h"
#include "plugins/cuda/bodies/rule_bodies.h"

namespace zero::bodies {

// Rounds up, so all threads of a warp run a loop equally: lanes beyond the end add zeros.
__device__ inline std::int64_t rounded_up(std::int64_t numel) {
  return (numel + kThreads - 1) / kThreads * kThreads;
}

// Does sum_of_ranks() for a block of kSumBlock elements in one thread.
template <typename In, typename Out>
__device__ void sum_block_of_ranks(const RankSumArguments& a, std::int64_t first, float (&sum)[kSumBlock]) {
  In in[kSumBlock];
  const auto load = [&](std::int32_t rank) { load_block(reinterpret_cast<const In*>(a.in[rank]) + first, in); };
  load(0);
  if (a.onto != nullptr) {
    load_block(a.onto + first, sum);
    ZERO_UNROLL
    for (int i = 0; i < kSumBlock; ++i) sum[i] = add(sum[i], to_float(in[i]));
  } else {
    ZERO_UNROLL
    for (int i = 0; i < kSumBlock; ++i) sum[i] = to_float(in[i]);
  }
  for (std::int32_t rank = 1; rank < a.num_in; ++rank) {
    load(rank);
    ZERO_UNROLL
    for (int i = 0; i < kSumBlock; ++i) sum[i] = add(sum[i], to_float(in[i]));
  }
  if (a.out == nullptr) return;
  Out* const to = reinterpret_cast<Out*>(a.out) + first;
  Out out[kSumBlock];
  if (a.accumulate) {
    load_block(to, out);
    ZERO_UNROLL
    for (int i = 0; i < kSumBlock; ++i) sum[i] = add(to_float(out[i]), sum[i]);
  }
  ZERO_UNROLL
  for (int i = 0; i < kSumBlock; ++i) {
    out[i] = rounded_to<Out>(sum[i]);
    sum[i] = to_float(out[i]);
  }
  store_block(out, to);
}

__global__ void __launch_bounds__(kThreads) rank_sum_kernel(const __grid_constant__ RankSumArguments a) {
  BlockSum squares;
  unsigned num_non_finite = 0;
  with_element_types(a.dtype, a.out_dtype,
                     [&]<typename In, typename Out>(std::type_identity<In> in, std::type_identity<Out> out) {
                       const std::int64_t stride = std::int64_t{kThreads} * gridDim.x * kSumBlock;
                       for (std::int64_t first = (std::int64_t{kThreads} * blockIdx.x + threadIdx.x) * kSumBlock;
                            first < a.numel; first += stride) {
                         float sum[kSumBlock];
                         if (a.numel - first >= kSumBlock) {
                           sum_block_of_ranks<In, Out>(a, first, sum);
                         } else {
                           ZERO_UNROLL
                           for (int i = 0; i < kSumBlock; ++i)
                             sum[i] = first + i < a.numel ? sum_of_ranks(a, in, out, first + i) : 0.0F;
                         }
                         if (a.stats == nullptr) continue;
                         ZERO_UNROLL
                         for (int i = 0; i < kSumBlock; ++i) num_non_finite += is_finite(sum[i]) ? 0U : 1U;
                         SumLimbs* const limbs = &a.stats->sum_squares;
                         squares.add(quarter_term<0>(sum), limbs);
                         squares.add(quarter_term<1>(sum), limbs);
                         squares.add(quarter_term<2>(sum), limbs);
                         squares.add(quarter_term<3>(sum), limbs);
                       }
                     });
  if (a.stats == nullptr) return;
  squares.flush(&a.stats->sum_squares);
  if (num_non_finite > 0) AtomicAdder()(a.stats->num_non_finite, num_non_finite);
}

__global__ void __launch_bounds__(kThreads) lamb_sums_kernel(const __grid_constant__ SliceTable<LambConstants> table,
                                                             const __grid_constant__ SumPlaces places) {
  TwoSums sums(places);
  for_each_tile(table, [&](std::size_t which, std::int64_t begin, std::int64_t end) {
    const Slice slice = table.slices[which];
    const LambBody body{table.constants[which]};
    sums.begin(which);
    with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
      for (std::int64_t i = begin + threadIdx.x; i < begin + rounded_up(end - begin); i += kThreads) {
        Element e;
        float u = 0;
        if (i < end) {
          e = load_element<2, G>(slice, body.gradient_scale(), i);
          u = body.direction(e);
        }
        sums.add(e.p, u);
      }
    });
  });
  sums.flush();
}

}  // namespace zero::bodies
