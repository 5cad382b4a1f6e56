// require_gpu_link(): checks that `zero train` can begin with comm.transport nccl on this machine.
//
//   require_gpu_link(config, find_gpus(/*memory=*/false), num_ranks, device_link_here());
//
// Local. It checks before ranks are started. If other launchers put two ranks on one GPU, open_device_link() refuses
// them.
#pragma once

#include <optional>

#include "zero/comm/transport/open_device_link.h"
#include "zero/device/open_device.h"

#include "app/config/options/config.h"

namespace zero::cli {

// `ranks`: number of ranks to start on this machine; nullopt: a launcher has started them. Throws ConfigError with key
// "comm.transport" if there is no GPU, if the library is missing or too old, or if ranks outnumber GPUs.
void require_gpu_link(const Config& config, const GpusHere& here, std::optional<int> ranks, const DeviceLinkHere& link);

}  // namespace zero::cli
