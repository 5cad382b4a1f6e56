// update_kernel(), adamw8bit_kernel(): updates by elementwise rules, and by AdamW with moments in 8 bits. One launch
// updates a list of spans.
#pragma once

#include "plugins/cuda/bodies/eight_bit_bodies.h"
#include "plugins/cuda/bodies/rule_bodies.h"
#include "plugins/cuda/grid.cuh"

namespace zero::bodies {

// Elements that a thread loads before it computes, which hides the memory's latency.
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

constexpr int kWarp = 32, kWarps = kThreads / kWarp;
// Elements of a block of codes per thread of its warp: every 32nd.
constexpr int kCodesOfAThread = kCodeBlock / kWarp;

__device__ inline std::int32_t largest_of_warp(std::int32_t value) {  // not negative
  return static_cast<std::int32_t>(__reduce_max_sync(0xffffffffU, static_cast<std::uint32_t>(value)));
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

// Loads everything before it computes, which hides the memory's latency.
template <typename G, typename Low>
__device__ void update_coded_block(const CodedSlice& s, const AdamBody& adam, std::int64_t block) {
  const std::int64_t first = block * kCodeBlock + threadIdx.x % kWarp;
  CodedElement loaded[kCodesOfAThread];
  for (int k = 0; k < kCodesOfAThread; ++k)
    if (first + k * kWarp < s.slice.numel) loaded[k] = load_codes<G>(s, adam, first + k * kWarp);
  const float first_scale = s.first.scales[block], second_scale = s.second.scales[block];
  Element elements[kCodesOfAThread];
  std::int32_t first_peak = 0, second_peak = 0;
  for (int k = 0; k < kCodesOfAThread; ++k) {
    Element& e = elements[k];
    if (first + k * kWarp < s.slice.numel) e = decoded(loaded[k], adam, first_scale, second_scale);
    first_peak = magnitude_bits(e.first) > first_peak ? magnitude_bits(e.first) : first_peak;
    second_peak = magnitude_bits(e.second) > second_peak ? magnitude_bits(e.second) : second_peak;
  }
  const BlockScale first_new = block_scale(largest_of_warp(first_peak));
  const BlockScale second_new = block_scale(largest_of_warp(second_peak));
  for (int k = 0; k < kCodesOfAThread; ++k)
    if (first + k * kWarp < s.slice.numel)
      store_coded<Low>(s, adam, elements[k], first_new.two_over, second_new.two_over, first + k * kWarp);
  if (threadIdx.x % kWarp != 0) return;
  s.first.scales[block] = first_new.scale;
  s.second.scales[block] = second_new.scale;
}

// A warp updates one block of codes at a time.
__global__ void __launch_bounds__(kThreads) adamw8bit_kernel(const __grid_constant__ CodedTable table) {
  std::size_t which = 0;
  const std::int64_t stride = std::int64_t{kWarps} * gridDim.x;
  for (std::int64_t block = std::int64_t{kWarps} * blockIdx.x + threadIdx.x / kWarp; block < table.num_blocks;
       block += stride) {
    while (which + 1 < AdamArguments::kMost && block >= table.first_block[which + 1]) ++which;
    const CodedSlice coded = table.slices[which];
    with_types(coded.slice, [&]<typename G, typename Low>(std::type_identity<G>, std::type_identity<Low>) {
      update_coded_block<G, Low>(coded, AdamBody{table.constants[which]}, block - table.first_block[which]);
    });
  }
}

}  // namespace zero::bodies
