// gather_budget(), tiles_ahead(): a rank's needs on each tier, and the budget's rest for gathered units and tiles.
//
//   GatherBudget budget =
//       gather_budget(options.device_memory, units, world, placement, spec_of(*rule), /*stage=*/3, free_bytes);
//   budget.capacity_bytes                       // may stay gathered, beside states and staging
//
// All bytes are of one rank, computed only from units and placement: nothing is allocated. All Local.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/engine/options/options.h"
#include "zero/engine/states/tile_stream.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

// Returns the memory that a rank needs, and the budget's rest for gathered units. Throws ConfigError under
// "zero.device_memory" with the smallest budget that works and the next cheaper stage. `free_bytes`: what "auto" may
// use. `or_least`: if that is too little, "auto" takes the least that works.
GatherBudget gather_budget(const MemoryBudget& memory, const std::vector<Unit>& units, int world,
                           const Placement& placement, const OptimizerSpec& spec, int stage, std::int64_t free_bytes,
                           bool or_least = false);

// Returns whether updates overlap the next forward pass: every use of a unit begins with a gather, and the unit is
// updated just before it. Transfers from other tiers, and the host's updates for a device, then overlap the computation
// of earlier units. `placement`: tiers that states may move to.
bool overlaps_updates(const Placement& placement, const std::vector<Unit>& units, int world, const OptimizerSpec& spec,
                      const OffloadOptions& options);

// Returns the number of tiles on disk that a budget of host memory lets a rank read ahead, and write behind: 1 to
// OffloadTiers::kDefaultDepth. Throws ConfigError under "zero.host_memory" with the smallest budget that works.
// `later`: tiers that states may move to, with more of them on disk.
int tiles_ahead(const MemoryBudget& memory, const std::vector<Unit>& units, int world, const Placement& placement,
                const Placement& later, const OptimizerSpec& spec, std::int64_t free_bytes);

// Checks whether `bytes` of a rank's states may be on disk, from the options only. Throws ConfigError under "zero.disk"
// if no folder is named, and under "zero.disk_memory" if a rank's limit is lower.
void require_disk(const OffloadOptions& options, std::int64_t bytes);

// Returns the bytes of a rank's secondary parts of all units; 0 if the placement has no secondary groups.
std::int64_t secondary_bytes(const std::vector<Unit>& units, int world, const Placement& placement);
// Returns the device's bytes for gathers, reductions and secondary parts, beside the states; min_budget: one unit at a
// time.
std::int64_t working_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget);
// Returns the part of these for reductions (also between linked devices), updates of whole matrices, and gathers of
// scattered units.
std::int64_t staging_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget);
// Returns the host's bytes for tiles of states on disk.
std::int64_t tile_bytes(const std::vector<Unit>& units, int world, const Placement& placement,
                        const OptimizerSpec& spec, int depth);

}  // namespace zero
