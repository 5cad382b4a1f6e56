// staging_limit(), linked_bytes(): the bytes of staging that gradients may use before and in a reduction. Local.
//
//   most = staging_limit(units, world, budget.is_min());
#pragma once

#include <cstdint>
#include <vector>

#include "zero/comm/device/device_communicator.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

// Returns the bytes of the flat gradient of the largest unit; 0 if no unit is trained.
std::int64_t largest_gradient(const std::vector<Unit>& units, int world);

// Without `min_budget` there is room for two flat ranges: one that fills, and one that is reduced. If more ranges begin
// to fill (early gradients, or a unit whose gradients are far apart), reductions are waited for sooner. With
// `min_budget` no reduction runs meanwhile, and the units of one block fill together. The limit then counts the largest
// block (Unit::repeated) plus a second embedding or another unit. If units are declared in another order than they are
// used, the first step takes more.
std::int64_t staging_limit(const std::vector<Unit>& units, int world, bool min_budget);

// linked_options(), linked_bytes(): the device memory of sums if units are sent from device to device (NCCL).
//
//   DeviceCommunicator comm(units, device, link, linked_options(units, shard, placement, budget.is_min()));
//   linked_bytes(units, shard, placement, min_budget)          // comm.held_bytes(), before there is one
//
// Blocks of other ranks pass through two slots, each as large as the largest unit's gradient, within a limit. The min
// budget lowers the limit, and a large gradient is then summed in more pieces. No memory is needed if the link computes
// the sums (RankSums::kLinked). All ranks need the same bytes, even if their shards differ. Local.
DeviceCommunicator::Options linked_options(const std::vector<Unit>& units, int world, const Placement& placement,
                                           bool min_budget);

// Returns the bytes of the device on a rank; 0 unless units are sent from device to device (Placement::linked).
std::int64_t linked_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget);

}  // namespace zero
