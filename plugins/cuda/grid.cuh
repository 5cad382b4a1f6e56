// for_each_element(), for_each_tile(): spread elements over threads; SliceTable passes a list of spans to one launch.
//
//   for_each_element(numel, [&](std::int64_t i) { ... });
//   __global__ void k(const __grid_constant__ SliceTable<AdamConstants> table) {
//     for_each_tile(table, [&](std::size_t slice, std::int64_t begin, std::int64_t end) { ... });
//   }
//
// Consecutive blocks have consecutive tiles: memory is faster if the blocks that run together are neighbours there. If
// a grid has fewer blocks than tiles, a block processes several tiles. A tile begins at a multiple of kTileNumel in its
// span, and all threads of a block have the same tile.
//
// Kernels in the .cuh files are pure device code; the .cu files launch them. So tests can run them on the host with
// simulated threads (tests/cuda/host_grid.h).
#pragma once

#include "zero/optim/rule/update_slices.h"

#include "plugins/cuda/bodies/slice.h"

namespace zero::bodies {

constexpr int kThreads = 256;
constexpr std::int64_t kTileNumel = 2048;

template <typename Use>
__device__ void for_each_element(std::int64_t numel, Use use) {
  for (std::int64_t begin = blockIdx.x * kTileNumel; begin < numel; begin += gridDim.x * kTileNumel) {
    const std::int64_t end = numel - begin < kTileNumel ? numel : begin + kTileNumel;
    for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) use(i);
  }
}

// A list of spans as a kernel's argument: below the 4 KiB that every driver accepts.
template <typename Constants>
struct SliceTable {
  static constexpr std::size_t kMost = UpdateSlices<Constants>::kMost;
  std::int64_t num_tiles = 0;
  std::array<std::int64_t, kMost> first_tile{};  // first tile of each slice; unused entries are larger than any tile
  std::array<Slice, kMost> slices{};
  std::array<Constants, kMost> constants{};
};

template <typename Constants>
SliceTable<Constants> table_of(const UpdateSlices<Constants>& slices, std::int64_t tile_numel = kTileNumel) {
  SliceTable<Constants> table;
  static_assert(sizeof(table) <= 3800);
  table.first_tile.fill(INT64_MAX);
  for (std::size_t i = 0; i < slices.count; ++i) {
    table.slices[i] = slice_of(slices.spans[i]);
    table.constants[i] = slices.constants[i];
    table.first_tile[i] = table.num_tiles;
    table.num_tiles += (slices.spans[i].numel + tile_numel - 1) / tile_numel;
  }
  return table;
}

template <typename Constants, typename Use>
__device__ void for_each_tile(const SliceTable<Constants>& table, Use use) {
  std::size_t slice = 0;
  for (std::int64_t tile = blockIdx.x; tile < table.num_tiles; tile += gridDim.x) {
    while (slice + 1 < table.kMost && tile >= table.first_tile[slice + 1]) ++slice;
    const std::int64_t begin = (tile - table.first_tile[slice]) * kTileNumel;
    const std::int64_t rest = table.slices[slice].numel - begin;
    use(slice, begin, begin + (rest < kTileNumel ? rest : kTileNumel));
  }
}

}  // namespace zero::bodies
