// Launches the kernels of element_kernels.cuh.
#include "plugins/cuda/element_kernels.cuh"
#include "plugins/cuda/launch.cuh"

namespace zero {

std::span<const KernelCode> element_kernels() {
  using namespace bodies;
  static constexpr std::array kCodes{
      KernelCode{"cast", &launch_elements<ElementArguments, cast_kernel>},
      KernelCode{"add", &launch_elements<ElementArguments, add_kernel>},
      KernelCode{"round", &launch_elements<ElementArguments, round_kernel>},
      KernelCode{"average", &launch_elements<AverageArguments, average_kernel>},
      KernelCode{"exchange", &launch_elements<ExchangeArguments, exchange_kernel>},
      KernelCode{"outer_subtract", &launch_elements<OuterArguments, outer_subtract_kernel>},
      KernelCode{"outer_move", &launch_elements<OuterArguments, outer_move_kernel>},
      KernelCode{"mix", &launch_elements<MixArguments, mix_kernel>}};
  return kCodes;
}

}  // namespace zero
