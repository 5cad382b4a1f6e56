// KernelCode: what a GPU has for a Kernel's name: a function that queues it in a stream.
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
  int most_blocks = 1;  // that run at once on this GPU: the grid of a kernel whose blocks end with sums to add up
};

struct KernelCode {
  std::string_view name;
  cudaError_t (*launch)(const LaunchPlace& place, const void* arguments);
};

std::span<const KernelCode> element_kernels();  // cast, add, and those beside the rules
std::span<const KernelCode> update_kernels();   // the rules that go element by element
std::span<const KernelCode> sum_kernels();      // the sum over ranks; LAMB's sums
std::span<const KernelCode> factor_kernels();   // Adafactor's
std::span<const KernelCode> matrix_kernels();   // Muon's products of matrices, and what comes between them

}  // namespace zero
