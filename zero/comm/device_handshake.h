// DeviceCommunicator::Handshake: the signatures of one collective between devices, carried by the control transport. For the files
// of DeviceCommunicator alone.
#pragma once

#include <optional>
#include <vector>

#include "zero/comm/device_communicator.h"

namespace zero {

struct DeviceCommunicator::Handshake {
  Signature own;
  std::vector<Signature> ranks;  // by rank; of a message, one
  int first_rank = 0;            // of these
  Work work;                     // until they are there
  Work told;                     // of a message: until this rank's has gone

  // Of a sum whose statistics are wanted.
  ReduceStats* stats = nullptr;
  std::optional<std::size_t> stats_slot;

  // The host has waited for the sum.
  void take_stats(DeviceCommunicator& comm) const;
};

}  // namespace zero
