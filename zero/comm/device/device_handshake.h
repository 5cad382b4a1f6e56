// DeviceCommunicator::Handshake: the signatures of one collective between devices, sent over the control communicator.
// Only for the files of DeviceCommunicator.
#pragma once

#include <optional>
#include <vector>

#include "zero/comm/device/device_communicator.h"

namespace zero {

struct DeviceCommunicator::Handshake {
  Signature own;
  std::vector<Signature> ranks;  // by rank; of a message, only the peer's
  int first_rank = 0;            // rank of the first of these
  Work work;                     // receipt of these
  Work told;                     // of a message: the sending of this rank's signature

  // Only of a sum with statistics.
  ReduceStats* stats = nullptr;
  std::optional<std::size_t> stats_slot;

  // Copies the statistics, after the host has waited for the sum.
  void take_stats(DeviceCommunicator& comm) const;
};

}  // namespace zero
