// Launches the kernels of sum_kernels.cuh.
#include "plugins/cuda/launch.cuh"
#include "plugins/cuda/sum_kernels.cuh"

namespace zero {
namespace bodies {

cudaError_t launch_rank_sum(const LaunchPlace& place, const void* arguments) {
  auto a = *static_cast<const RankSumArguments*>(arguments);
  // The sum over one rank in place needs no output.
  if (a.num_in == 1 && a.in[0] == a.out && a.dtype == a.out_dtype && !a.accumulate && a.onto == nullptr)
    a.out = nullptr;
  if (a.numel == 0 || (a.out == nullptr && a.stats == nullptr)) return cudaSuccess;
  const std::int64_t blocks = (a.numel + kSumBlock * kThreads - 1) / (kSumBlock * kThreads);
  rank_sum_kernel<<<block_each(blocks), kThreads, 0, place.stream>>>(a);
  return cudaGetLastError();
}

cudaError_t launch_lamb_sums(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const LambSumsArguments*>(arguments);
  const auto table = table_of(a.slices);
  if (table.num_tiles == 0) return cudaSuccess;
  const SumPlaces places{.parameter = a.parameter, .direction = a.direction};
  lamb_sums_kernel<<<blocks_at_once(table.num_tiles, place), kThreads, 0, place.stream>>>(table, places);
  return cudaGetLastError();
}

}  // namespace bodies

std::span<const KernelCode> sum_kernels() {
  static constexpr std::array kCodes{KernelCode{"rank_sum", &bodies::launch_rank_sum},
                                     KernelCode{"lamb_sums", &bodies::launch_lamb_sums}};
  return kCodes;
}

}  // namespace zero
