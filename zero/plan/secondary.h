// Secondary parts: what each rank keeps of a unit's weights within a step, beside its shard (hpZ of ZeRO++).
//
//   secondary_part(unit, /*rank=*/5, /*world=*/8, /*group=*/4)      // the second quarter of the unit's padded range
//   secondary_bytes(units, 8, 4)                                    // of all units, on one rank
//   part_gather_bytes(unit, 8, 4)                                   // sent in one gather among the four
//
// `world`: the ranks that hold the model once; `group`: neighbours among them that hold all weights together once more,
// rank / group being the number of a rank's group and rank % group its place there. The first gather of a unit after an
// update goes over all ranks, and of what it brings each rank keeps its part; later ones go over the group alone. Parts are
// equal: a part is world / group shards that lie side by side. Units that are cut by weights have none.
//
// Values only; Local.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zero/plan/partition.h"

namespace zero {

// Throws ConfigError under `key` unless `shard` ranks, which hold the model once, are two or more groups of this size; 0 asks for
// no groups.
void require_secondary_group(int shard, int group, std::string_view key = "zero.secondary_group");

inline Shard secondary_part(const Unit& unit, int rank, int world, int group) {
  const std::int64_t numel = world / group * shard_numel(unit, world);
  return {rank % group * numel, numel};
}

inline std::int64_t secondary_part_bytes(const Unit& unit, int world, int group) {
  return world / group * shard_numel(unit, world) * static_cast<std::int64_t>(size_of(unit.dtype));
}

// What a rank keeps of all units; `group` 0: nothing.
inline std::int64_t secondary_bytes(const std::vector<Unit>& units, int world, int group) {
  std::int64_t bytes = 0;
  for (const Unit& unit : units) bytes += group > 0 ? secondary_part_bytes(unit, world, group) : 0;
  return bytes;
}

// A rank sends its part to each of the others in its group.
inline std::int64_t part_gather_bytes(const Unit& unit, int world, int group) {
  return (group - 1) * secondary_part_bytes(unit, world, group);
}

// Of bytes that a rank sends to all others of `world`, to each as many: those that leave its group.
inline std::int64_t sent_between_groups(std::int64_t sent_over_all, int world, int group) {
  return world > 1 ? sent_over_all / (world - 1) * (world - group) : 0;
}

}  // namespace zero
