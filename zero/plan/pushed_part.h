// Pushed part: which elements of a worker's flat range a server owns, and where both have them.
//
//   const std::vector<Unit> whole = make_units(specs, {}), cut = cut_units(whole, Cut::kHash, 2);
//   for (const PushedStretch& stretch : pushed_stretches(whole[u], cut[u], /*server=*/1, /*servers=*/2))
//     copy(gradient + stretch.whole, part + stretch.shard, stretch.numel);
//
// A worker has a unit as one rank alone has it: uncut. The stretches of a server are its part: they follow each other from the
// beginning of its shard, without gaps, and end where its parameters end, to a multiple of alignment_numel(unit). What its
// shard has beyond (padding to the largest, or to equal ranges) is no part: it crosses to nobody. The parts of all servers are
// the worker's range, once. So every cut moves as many bytes. Values only.
#pragma once

#include <cstdint>
#include <vector>

#include "zero/plan/unit.h"

namespace zero {

// In elements. As long as possible: neighbours in both are one stretch.
struct PushedStretch {
  std::int64_t whole = 0;  // its place in the worker's range
  std::int64_t shard = 0;  // in the server's shard
  std::int64_t numel = 0;
  bool operator==(const PushedStretch&) const = default;
};

// In the order of the server's shard. `whole` and `cut`: the same unit, uncut and cut for these servers, in any way.
std::vector<PushedStretch> pushed_stretches(const Unit& whole, const Unit& cut, int server, int servers);

// Elements of a part.
inline std::int64_t numel_of(const std::vector<PushedStretch>& part) {
  return part.empty() ? 0 : part.back().shard + part.back().numel;
}

// Bytes of a worker's blocks. A part of several stretches is put together in a block before it is sent, and taken apart after
// it was received. There is a block for each server, as large as its largest such part. `element_bytes`: bytes of an element of a
// unit on its way, the larger of both directions.
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
