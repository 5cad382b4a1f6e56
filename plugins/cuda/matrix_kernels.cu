// Launches the kernels of matrix_kernels.cuh.
#include "plugins/cuda/launch.cuh"
#include "plugins/cuda/matrix_kernels.cuh"

namespace zero {
namespace bodies {

template <int kParts>
cudaError_t launch_product_of(const LaunchPlace& place, const MatrixProduct& p) {
  const std::int64_t squares = num_product_squares(p, kQuarter * kParts);
  matrix_product_kernel<kParts><<<block_each(squares), kThreads, 0, place.stream>>>(p);
  return cudaGetLastError();
}

// Large squares read less of the matrices, but small squares leave fewer processors idle if there are few large ones.
// most_blocks is eight per processor, and a processor runs two large squares at a time.
cudaError_t launch_product(const LaunchPlace& place, const void* arguments) {
  const auto& p = *static_cast<const MatrixProduct*>(arguments);
  if (p.rows == 0 || p.columns == 0) return cudaSuccess;
  return num_product_squares(p, 2 * kQuarter) >= place.most_blocks / 4 ? launch_product_of<2>(place, p)
                                                                       : launch_product_of<1>(place, p);
}

cudaError_t launch_squares(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const MatrixNormArguments*>(arguments);
  if (a.numel == 0) return cudaSuccess;
  const unsigned blocks = blocks_at_once((a.numel + kTileNumel - 1) / kTileNumel, place);
  matrix_squares_kernel<<<blocks, kThreads, 0, place.stream>>>(a);
  return cudaGetLastError();
}

cudaError_t launch_norm(const LaunchPlace& place, const void* arguments) {
  matrix_norm_kernel<<<1, 1, 0, place.stream>>>(*static_cast<const MatrixNormArguments*>(arguments));
  return cudaGetLastError();
}

cudaError_t launch_transpose(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const TransposeArguments*>(arguments);
  const std::int64_t squares = num_turned_squares(a);
  if (squares == 0) return cudaSuccess;
  matrix_transpose_kernel<<<block_each(squares), kThreads, 0, place.stream>>>(a);
  return cudaGetLastError();
}

}  // namespace bodies

std::span<const KernelCode> matrix_kernels() {
  using namespace bodies;
  static constexpr std::array kCodes{
      KernelCode{"matrix_product", &launch_product}, KernelCode{"matrix_squares", &launch_squares},
      KernelCode{"matrix_norm", &launch_norm},
      KernelCode{"matrix_divide", &launch_elements<MatrixNormArguments, matrix_divide_kernel>},
      KernelCode{"matrix_transpose", &launch_transpose}};
  return kCodes;
}

}  // namespace zero
