// Linked staging: the memory of a device that sums of gradients take where units cross from device to device (NCCL).
//
//   DeviceCommunicator comm(units, device, link, linked_options(units, shard, placement, budget.is_min()));
//   linked_bytes(units, shard, placement, min_budget)          // comm.held_bytes(), before there is one
//
// Blocks of other ranks pass through two slots, each as large as the largest unit's gradient, within a limit. With the min budget the
// limit is lower, and a large gradient is summed in more pieces. None where the link makes the sums (RankSums::kLinked). Equal on all
// ranks, also where their shards are not. Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/comm/device/device_communicator.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

DeviceCommunicator::Options linked_options(const std::vector<Unit>& units, int world, const Placement& placement,
                                           bool min_budget);

// Bytes of the device on a rank; 0 where units do not cross so (Placement::linked).
std::int64_t linked_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget);

}  // namespace zero
