// num_sharers(): the number of ranks of a run that compute on this rank's device, this rank included.
//
//   host.ranks_on_device = num_sharers(device, comm);     // 2: two ranks share a GPU, and so its memory
//
// Collective. Returns 1 if the device cannot identify itself (Device::identity()).
#pragma once

#include "zero/comm/communicator.h"
#include "zero/device/device.h"

namespace zero {

int num_sharers(const Device& device, Communicator& comm);

}  // namespace zero
