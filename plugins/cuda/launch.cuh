// launch_elements(): a KernelCode's launch function for a kernel whose arguments have `numel`.
//
//   KernelCode{"average", &launch_elements<AverageArguments, average_kernel>}
#pragma once

#include <algorithm>

#include "plugins/cuda/grid.cuh"
#include "plugins/cuda/launch.h"

namespace zero::bodies {

// Returns the blocks of a grid with one block per piece of work.
inline unsigned block_each(std::int64_t pieces) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return static_cast<unsigned>(std::clamp<std::int64_t>(pieces, 1, kMost));
}

// The same, but at most as many as the GPU runs at once: for blocks that end by adding up a sum.
inline unsigned blocks_at_once(std::int64_t pieces, const LaunchPlace& place) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(pieces, 1, place.most_blocks));
}

template <typename Arguments, void (*kernel)(Arguments)>
cudaError_t launch_elements(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const Arguments*>(arguments);
  if (a.numel == 0) return cudaSuccess;
  kernel<<<block_each((a.numel + kTileNumel - 1) / kTileNumel), kThreads, 0, place.stream>>>(a);
  return cudaGetLastError();
}

}  // namespace zero::bodies
