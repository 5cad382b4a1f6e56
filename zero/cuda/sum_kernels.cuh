// rank_sum_kernel(): the sum over ranks in their order, with its statistics; lamb_sums_kernel(): LAMB's sums over parameters.
#pragma once

#include "zero/cuda/block_sum.cuh"
#include "zero/cuda/element_bodies.h"
#include "zero/cuda/rule_bodies.h"

namespace zero::bodies {

// All threads of a warp go through a loop alike: lanes beyond the end add zeros.
__device__ inline std::int64_t rounded_up(std::int64_t numel) {
  return (numel + kThreads - 1) / kThreads * kThreads;
}

__global__ void __launch_bounds__(kThreads) rank_sum_kernel(const __grid_constant__ RankSumArguments a) {
  BlockSum squares;
  unsigned num_non_finite = 0;
  with_element_types(a.dtype, a.out_dtype, [&](auto in, auto out) {
    for_each_element(a.stats != nullptr ? rounded_up(a.numel) : a.numel, [&](std::int64_t i) {
      const float sum = i < a.numel ? sum_of_ranks(a, in, out, i) : 0.0F;
      if (a.stats == nullptr) return;
      num_non_finite += is_finite(sum) ? 0U : 1U;
      const double term = quarter_terms(square_of(sum), ExchangeThreads());
      if (threadIdx.x % kSumBlock < 4) squares.add(term, &a.stats->sum_squares);
    });
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
