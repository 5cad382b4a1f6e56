// require_gpu_link(): whether `zero train` can begin with comm.transport nccl on this machine.
//
//   require_gpu_link(config, find_gpus(/*memory=*/false), num_ranks, device_link_here());
//
// Local. Looks before ranks are started. Two ranks of one GPU that other launchers bring about are refused by open_device_link().
#pragma once

#include <optional>

#include "zero/config/config.h"
#include "zero/device/open_device.h"
#include "zero/transport/open_device_link.h"

namespace zero::cli {

// `ranks`: to be started on this machine; nothing: a launcher has started them. Throws ConfigError under "comm.transport": no
// GPU, no library or one that is too old, more ranks than GPUs.
void require_gpu_link(const Config& config, const GpusHere& here, std::optional<int> ranks, const DeviceLinkHere& link);

}  // namespace zero::cli
