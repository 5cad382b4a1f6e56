// Pushed part: the elements of a worker's flat range that a server owns, and their positions on both sides.
//
//   const std::vector<Unit> whole = make_units(specs, {}), cut = cut_units(whole, Cut::kHash, 2);
//   for (const PushedStretch& stretch : pushed_stretches(whole[u], cut[u], /*server=*/1, /*servers=*/2))
//     copy(gradient + stretch.whole, part + stretch.shard, stretch.numel);
//
// A worker stores a unit whole, as a world of one rank does. A server's part is its stretches. They follow each other
// from the beginning of its shard, without gaps. They end with the server's parameters, rounded up to a multiple of
// alignment_numel(unit). The rest of the shard (padding to the largest part, or to equal ranges) belongs to no part and
// is not sent. The parts of all servers cover the worker's range once, so every cut sends the same number of bytes.
// Values only.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

// A range that is contiguous for worker and server, in elements. As long as possible: adjacent stretches are merged.
struct PushedStretch {
  std::int64_t whole = 0;  // offset in the worker's range
  std::int64_t shard = 0;  // offset in the server's shard
  std::int64_t numel = 0;
  bool operator==(const PushedStretch&) const = default;
};

// Returns the stretches in the order of the server's shard. `whole` is the unit before it is cut, and `cut` the same
// unit after any cut for these servers.
std::vector<PushedStretch> pushed_stretches(const Unit& whole, const Unit& cut, int server, int servers);

// Returns the elements of a part.
inline std::int64_t numel_of(const std::vector<PushedStretch>& part) {
  return part.empty() ? 0 : part.back().shard + part.back().numel;
}

// Returns the bytes of a worker's blocks. A part of several stretches is assembled in a block before it is sent, and
// split after it was received. Each server has a block of the size of its largest such part. `element_bytes`: bytes of
// a unit's element in a message, the larger of both directions.
template <typename ElementBytes>
std::int64_t pushed_block_bytes(const std::vector<Unit>& whole, const std::vector<Unit>& cut, int servers,
                                ElementBytes element_bytes) {
  std::int64_t all = 0;
  for (int server = 0; server < servers; ++server) {
    std::int64_t largest = 0;
    for (std::size_t unit = 0; unit < whole.size(); ++unit) {
      const std::vector<PushedStretch> part = pushed_stretches(whole[unit], cut[unit], server, servers);
      const std::int64_t bytes = numel_of(part) * static_cast<std::int64_t>(element_bytes(whole[unit]));
      if (part.size() > 1 && bytes > largest) largest = bytes;
    }
    all += largest;
  }
  return all;
}

}  // namespace zero
