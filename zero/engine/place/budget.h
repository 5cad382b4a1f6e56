// gather_budget(), tiles_ahead(): what a rank needs on each tier, and what a budget leaves for gathered units and for tiles
// on their way.
//
//   GatherBudget budget =
//       gather_budget(options.device_memory, units, world, placement, spec_of(*rule), /*stage=*/3, free_bytes);
//   budget.capacity_bytes                       // may stay gathered, beside states and staging
//
// Bytes of one rank, from units and placement alone: nothing is allocated, no rank is asked. Local, all of it.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/engine/options/options.h"
#include "zero/engine/states/offload_tiers.h"
#include "zero/plan/schedule/schedule.h"

namespace zero {

// The memory a rank needs, and what a budget leaves for gathered units. Throws ConfigError under "zero.device_memory"
// with the smallest budget that works and the next cheaper stage. `free_bytes`: what "auto" may use. `or_least`: where that is too
// little, "auto" takes the least that works.
GatherBudget gather_budget(const MemoryBudget& memory, const std::vector<Unit>& units, int world,
                           const Placement& placement, const OptimizerSpec& spec, int stage, std::int64_t free_bytes,
                           bool or_least = false);

// Where every use of a unit begins with a gather, that is where its update must be done, and not before: what has to
// come from elsewhere comes, and what the host updates for a device is updated, while units before it compute. `placement`: where states may come to lie.
bool overlaps_updates(const Placement& placement, const std::vector<Unit>& units, int world, const OptimizerSpec& spec,
                      const OffloadOptions& options);

// How many tiles of what lies on disk a budget of host memory lets a rank read ahead, and write behind: 1 to
// OffloadTiers::kDefaultDepth. Throws ConfigError under "zero.host_memory" with the smallest budget that works.
// `later`: where states may come to lie, with more of them on disk.
int tiles_ahead(const MemoryBudget& memory, const std::vector<Unit>& units, int world, const Placement& placement,
                const Placement& later, const OptimizerSpec& spec, std::int64_t free_bytes);

// May `bytes` of a rank's states lie on disk? Looks at options alone, at no disk. Throws ConfigError: under "zero.disk"
// where no folder is named, under "zero.disk_memory" where a rank may have less.
void require_disk(const OffloadOptions& options, std::int64_t bytes);

// Bytes of the secondary parts that a rank keeps of all units; 0 where the placement names no groups for them.
std::int64_t secondary_bytes(const std::vector<Unit>& units, int world, const Placement& placement);
// Bytes on the device that gathering and reducing take beside the states, with secondary parts; min_budget: one unit at a time.
std::int64_t working_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget);
// Of these, reducing alone (also between linked devices), updating matrices as wholes, and putting parameters of scattered units together.
std::int64_t staging_bytes(const std::vector<Unit>& units, int world, const Placement& placement, bool min_budget);
// Bytes on the host that tiles of what lies on disk take.
std::int64_t tile_bytes(const std::vector<Unit>& units, int world, const Placement& placement,
                        const OptimizerSpec& spec, int depth);

}  // namespace zero
