// num_sharers(): the ranks of a run that compute on one device, this one among them.
//
//   seams.ranks_on_device = num_sharers(device, comm);     // 2: two ranks share a GPU, and so its memory
//
// Collective. 1 where a device cannot say which it is (Device::identity()).
#pragma once

#include "zero/comm/communicator.h"
#include "zero/device/device.h"

namespace zero {

int num_sharers(const Device& device, Communicator& comm);

}  // namespace zero
