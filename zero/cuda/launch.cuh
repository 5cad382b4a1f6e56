// launch_elements(): a KernelCode's function for a kernel whose arguments have `numel`.
//
//   KernelCode{"average", &launch_elements<AverageArguments, average_kernel>}
#pragma once

#include <algorithm>

#include "zero/cuda/grid.cuh"
#include "zero/cuda/launch.h"

namespace zero::bodies {

// Blocks of a grid for so many pieces of work.
inline unsigned blocks_for(std::int64_t pieces, const LaunchPlace& place) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(pieces, 1, place.most_blocks));
}

template <typename Arguments, void (*kernel)(Arguments)>
cudaError_t launch_elements(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const Arguments*>(arguments);
  if (a.numel == 0) return cudaSuccess;
  kernel<<<blocks_for((a.numel + kThreads - 1) / kThreads, place), kThreads, 0, place.stream>>>(a);
  return cudaGetLastError();
}

}  // namespace zero::bodies
