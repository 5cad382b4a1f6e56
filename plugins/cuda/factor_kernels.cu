// Launches the kernels of factor_kernels.cuh.
#include "plugins/cuda/factor_kernels.cuh"
#include "plugins/cuda/launch.cuh"

namespace zero {
namespace bodies {

cudaError_t launch_factor_squares(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const FactorSquaresArguments*>(arguments);
  if (a.span.numel == 0) return cudaSuccess;
  if (a.matrix.columns <= 0 || a.matrix.columns > kMostColumns) return cudaErrorInvalidValue;
  const Slice slice = slice_of(a.span);
  const auto grid = static_cast<unsigned>(place.most_blocks);
  row_squares_kernel<<<grid, kThreads, 0, place.stream>>>(a, slice);
  column_squares_kernel<<<grid, kThreads, 0, place.stream>>>(a, slice);
  return cudaGetLastError();
}

cudaError_t launch_row_mean(const LaunchPlace& place, const void* arguments) {
  row_mean_kernel<<<1, kThreads, 0, place.stream>>>(*static_cast<const RowMeanArguments*>(arguments));
  return cudaGetLastError();
}

bool fits(const AdafactorArguments& a) {
  for (std::size_t i = 0; i < a.count; ++i) {
    if (a.constants[i].matrix.columns > kMostColumns) return false;
  }
  return true;
}

cudaError_t launch_adafactor(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const AdafactorArguments*>(arguments);
  if (!fits(a)) return cudaErrorInvalidValue;
  const auto table = table_of(a);
  if (table.num_tiles == 0) return cudaSuccess;
  adafactor_kernel<<<block_each(table.num_tiles), kThreads, 0, place.stream>>>(table);
  return cudaGetLastError();
}

cudaError_t launch_adafactor_sums(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const AdafactorSumsArguments*>(arguments);
  if (!fits(a.slices)) return cudaErrorInvalidValue;
  const auto table = table_of(a.slices);
  if (table.num_tiles == 0) return cudaSuccess;
  const SumPlaces places{.parameter = a.parameter, .direction = a.direction};
  adafactor_sums_kernel<<<blocks_at_once(table.num_tiles, place), kThreads, 0, place.stream>>>(table, places);
  return cudaGetLastError();
}

}  // namespace bodies

std::span<const KernelCode> factor_kernels() {
  using namespace bodies;
  static constexpr std::array kCodes{
      KernelCode{"factor_squares", &launch_factor_squares},
      KernelCode{"factor", &launch_elements<FactorArguments, factor_kernel>}, KernelCode{"row_mean", &launch_row_mean},
      KernelCode{"adafactor_sums", &launch_adafactor_sums}, KernelCode{"adafactor", &launch_adafactor}};
  return kCodes;
}

}  // namespace zero
