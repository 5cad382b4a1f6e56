// num_sharers(): the number of ranks of a run that compute on this rank's device, this rank included.
//
//   host.ranks_on_device = num_sharers(device, comm);     // 2: two ranks share a GPU, and so its memory
//
// Collective. Returns `otherwise` if the device cannot identify itself (Device::identity()). The number of GPUs that a
// rank sees is no answer: with `srun --gpus-per-task=1` each rank sees one, and has it for itself.
#pragma once

#include "zero/comm/communicator.h"
#include "zero/device/device.h"

namespace zero {

int num_sharers(const Device& device, Communicator& comm, int otherwise = 1);

}  // namespace zero
