// update_kernel(), adamw8bit_kernel(): updates of the rules that go element by element, and of AdamW with moments in 8 bits: one
// launch for a list of spans.
#pragma once

#include "zero/cuda/eight_bit_bodies.h"
#include "zero/cuda/grid.cuh"
#include "zero/cuda/rule_bodies.h"

namespace zero::bodies {

// Elements that a thread loads before it computes: what hides the memory's latency.
constexpr int kAtOnce = 4;

template <typename Constants>
__global__ void __launch_bounds__(kThreads) update_kernel(const __grid_constant__ SliceTable<Constants> table) {
  for_each_tile(table, [&](std::size_t which, std::int64_t begin, std::int64_t end) {
    const Slice slice = table.slices[which];
    with_body(table.constants[which], slice, [&](const auto& rule) {
      constexpr int kStates = std::decay_t<decltype(rule)>::kStates;
      with_types(slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
        for (std::int64_t i = begin + threadIdx.x; i < end; i += kAtOnce * kThreads) {
          Element elements[kAtOnce];
          for (int k = 0; k < kAtOnce; ++k) {
            const std::int64_t at = i + k * kThreads;
            if (at < end) elements[k] = load_element<kStates, G>(slice, rule.gradient_scale(), at);
          }
          for (int k = 0; k < kAtOnce; ++k) {
            const std::int64_t at = i + k * kThreads;
            if (at >= end) continue;
            rule(elements[k]);
            store_element<kStates, Low>(slice, elements[k], at);
          }
        }
      });
    });
  });
}

static_assert(kThreads == kCodeBlock, "a thread has an element of a block of codes");

// The largest of all threads of the block.
__device__ inline std::int32_t largest_of_block(std::int32_t value) {
  __shared__ std::int32_t of_warp[kThreads / 32];
  const auto take = [&value](std::int32_t other) { value = other > value ? other : value; };
  for (int distance = 16; distance > 0; distance /= 2) take(__shfl_xor_sync(0xffffffffU, value, distance));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  for (const std::int32_t other : of_warp) take(other);
  __syncthreads();
  return value;
}

struct CodedTable {
  std::int64_t num_blocks = 0;
  std::array<std::int64_t, AdamArguments::kMost> first_block{};
  std::array<CodedSlice, AdamArguments::kMost> slices{};
  std::array<AdamConstants, AdamArguments::kMost> constants{};
};

inline CodedTable coded_table_of(const AdamArguments& a) {
  CodedTable table;
  static_assert(sizeof(table) <= 3800);
  table.first_block.fill(INT64_MAX);
  for (std::size_t i = 0; i < a.count; ++i) {
    table.slices[i] = coded_slice_of(a.spans[i]);
    table.constants[i] = a.constants[i];
    table.first_block[i] = table.num_blocks;
    table.num_blocks += (a.spans[i].numel + kCodeBlock - 1) / kCodeBlock;
  }
  return table;
}

template <typename G, typename Low>
__device__ void update_coded_block(const CodedSlice& s, const AdamBody& adam, std::int64_t block) {
  const std::int64_t i = block * kCodeBlock + threadIdx.x;
  const bool has_element = i < s.slice.numel;
  const Element e = has_element ? load_coded<G>(s, adam, i) : Element{};
  const BlockScale first = block_scale(largest_of_block(magnitude_bits(e.first)));
  const BlockScale second = block_scale(largest_of_block(magnitude_bits(e.second)));
  if (has_element) store_coded<Low>(s, adam, e, first.two_over, second.two_over, i);
  if (threadIdx.x != 0) return;
  s.first.scales[block] = first.scale;
  s.second.scales[block] = second.scale;
}

__global__ void __launch_bounds__(kThreads) adamw8bit_kernel(const __grid_constant__ CodedTable table) {
  std::size_t which = 0;
  for (std::int64_t block = blockIdx.x; block < table.num_blocks; block += gridDim.x) {
    while (which + 1 < AdamArguments::kMost && block >= table.first_block[which + 1]) ++which;
    const CodedSlice coded = table.slices[which];
    with_types(coded.slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
      update_coded_block<G, Low>(coded, AdamBody{table.constants[which]}, block - table.first_block[which]);
    });
  }
}

}  // namespace zero::bodies
