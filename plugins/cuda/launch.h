// KernelCode: a GPU's code for a Kernel's name: a function that queues it in a stream.
//
//   for (const KernelCode& code : update_kernels())
//     if (code.name == "adam") code.launch({stream, blocks}, &arguments);     // AdamArguments
//
// Arguments are copied when a kernel is queued. Local.
#pragma once

#include <span>
#include <string_view>

#include <cuda_runtime_api.h>

namespace zero {

struct LaunchPlace {
  cudaStream_t stream = nullptr;
  int most_blocks = 1;  // blocks that run at once on this GPU: the grid of kernels whose blocks end by adding up sums
};

struct KernelCode {
  std::string_view name;
  cudaError_t (*launch)(const LaunchPlace& place, const void* arguments);
};

std::span<const KernelCode> element_kernels();  // cast, add, and the kernels beside the rules
std::span<const KernelCode> update_kernels();   // elementwise rules
std::span<const KernelCode> sum_kernels();      // the sum over ranks; LAMB's sums
std::span<const KernelCode> factor_kernels();   // Adafactor's kernels
std::span<const KernelCode> matrix_kernels();   // Muon's products of matrices, and the kernels between them

}  // namespace zero
