// Linked staging: the device memory that sums of gradients need if units are sent from device to device (NCCL).
//
//   DeviceCommunicator comm(units, device, link, linked_options(units, shard, placement, budget.is_min()));
//   linked_bytes(units, shard, placement, min_budget)          // comm.held_bytes(), before there is one
//
// Blocks of other ranks pass through two slots, each as large as the largest unit's gradient, within a limit. The min
// budget lowers the limit, and a large gradient is then summed in more pieces. No memory is needed if the link computes
// the sums (RankSums::kLinked). All ranks need the same bytes, even if their shards differ. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/comm/device/device_communicator.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

DeviceCommunicator::Options linked_options(const std::vector<Unit>& units, int world, const Placement& placement,
                                           bool min_budget);

// Returns the bytes of the device on a rank; 0 unless units are sent from device to device (Placement::linked).
std::int64_t linked_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget);

}  // namespace zero
