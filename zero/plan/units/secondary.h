// Secondary parts: the part of a unit's weights that each rank keeps within a step, beside its shard (hpZ of ZeRO++).
//
//   secondary_part(unit, /*rank=*/5, /*world=*/8, /*group=*/4)      // the second quarter of the unit's padded range
//   secondary_bytes(units, 8, 4)                                    // of all units, on one rank
//   part_gather_bytes(unit, 8, 4)                                   // sent in one gather among the four
//
// `world`: the ranks that hold one copy of the model. `group`: the number of neighbouring ranks that together hold all
// weights a second time. rank / group is a rank's group, and rank % group its position there. The first gather of a
// unit after an update asks all ranks, and each rank keeps its part of the result. Later gathers ask only the group.
// Parts are equal: a part is world / group adjacent shards. Units that are cut by weights have no parts.
//
// Values only; Local.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zero/plan/units/partition.h"

namespace zero {

// Throws ConfigError under `key` for an impossible group. `group` must divide `shard`, the number of ranks that hold
// one copy of the model. It must be at least 2 and leave two or more groups. 0: no groups.
void require_secondary_group(int shard, int group, std::string_view key = "zero.secondary_group");

inline Shard secondary_part(const Unit& unit, int rank, int world, int group) {
  const std::int64_t numel = world / group * shard_numel(unit, world);
  return {rank % group * numel, numel};
}

inline std::int64_t secondary_part_bytes(const Unit& unit, int world, int group) {
  return world / group * shard_numel(unit, world) * static_cast<std::int64_t>(size_of(unit.dtype));
}

// Returns the bytes that a rank keeps of all units; 0 if `group` is 0.
inline std::int64_t secondary_bytes(const std::vector<Unit>& units, int world, int group) {
  std::int64_t bytes = 0;
  for (const Unit& unit : units) bytes += group > 0 ? secondary_part_bytes(unit, world, group) : 0;
  return bytes;
}

// Returns the bytes of a gather: a rank sends its part to every other rank of its group.
inline std::int64_t part_gather_bytes(const Unit& unit, int world, int group) {
  return (group - 1) * secondary_part_bytes(unit, world, group);
}

// Returns the bytes that leave the group, if a rank sends `sent_over_all` bytes in equal amounts to all others of
// `world`.
inline std::int64_t sent_between_groups(std::int64_t sent_over_all, int world, int group) {
  return world > 1 ? sent_over_all / (world - 1) * (world - group) : 0;
}

}  // namespace zero
