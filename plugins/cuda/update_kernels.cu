// Launches the kernels of update_kernels.cuh.
#include "plugins/cuda/launch.cuh"
#include "plugins/cuda/update_kernels.cuh"

namespace zero {
namespace bodies {

template <typename Constants>
cudaError_t launch_update(const LaunchPlace& place, const void* arguments) {
  const auto table = table_of(*static_cast<const UpdateSlices<Constants>*>(arguments));
  if (table.num_tiles == 0) return cudaSuccess;
  update_kernel<<<block_each(table.num_tiles), kThreads, 0, place.stream>>>(table);
  return cudaGetLastError();
}

cudaError_t launch_adamw8bit(const LaunchPlace& place, const void* arguments) {
  const auto& a = *static_cast<const AdamArguments*>(arguments);
  const CodedTable table = coded_table_of(a);
  if (table.num_blocks == 0) return cudaSuccess;
  adamw8bit_kernel<<<block_each((table.num_blocks + kWarps - 1) / kWarps), kThreads, 0, place.stream>>>(table);
  return cudaGetLastError();
}

}  // namespace bodies

std::span<const KernelCode> update_kernels() {
  static constexpr std::array kCodes{KernelCode{"sgd", &bodies::launch_update<SgdConstants>},
                                     KernelCode{"adam", &bodies::launch_update<AdamConstants>},
                                     KernelCode{"lion", &bodies::launch_update<LionConstants>},
                                     KernelCode{"lamb", &bodies::launch_update<LambConstants>},
                                     KernelCode{"muon_direct", &bodies::launch_update<MuonDirectionConstants>},
                                     KernelCode{"muon_step", &bodies::launch_update<MuonStepConstants>},
                                     KernelCode{"adamw8bit", &bodies::launch_adamw8bit}};
  return kCodes;
}

}  // namespace zero
