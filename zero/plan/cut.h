// Cut: who owns which elements of a unit. Values only.
//
//   std::vector<Unit> units = cut_units(make_units(specs, {}), Cut::kHash, 3);   // shard_of(units[u], rank, 3) as ever
//   moved_share(units, 3, cut_units(make_units(specs, {}), Cut::kHash, 4), 4)    // 0.26: of what is owned, with another owner
//
// kRange: equal ranges of the flat range. The others lay the flat range out anew, in the order of owners: what an owner has
// lies together, and every owner's part is padded to the size of the largest. So shards stay equal blocks, which collectives
// move, and shard_of() stays true; what differs is where slices lie (Unit::owned).
//
// kWhole: parameters whole. Of each unit the largest first, each to the owner that has the least of this unit, and among
// those to the one with the least of the model. No owner has more of a unit than an equal share and the largest parameter.
// Where matrices are updated as wholes (Unit::whole_matrices()), units of others stay equal ranges: nobody needs those whole,
// and an embedding that is a unit of its own would be padded to its full size for every owner.
// kHash: consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, arXiv:1608.01350), of blocks of 64 to 4,096
// elements (hash_block()). Owners stand at 128 points each of a ring. A block goes to the next owner on the ring that has
// less than 1.05 times an equal share of the unit, rounded up to whole blocks. With one owner more, about 1/(N+1) of the
// elements move.
// kWeighted: ranges in proportion to a weight of each owner.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zero/plan/unit.h"

namespace zero {

enum class Cut : std::uint8_t { kRange, kWhole, kHash, kWeighted };

inline constexpr std::int64_t kHashBlock = 4096, kLeastHashBlock = 64;  // elements
inline constexpr std::int64_t kFewHashBlocks = 256;                     // of a unit with fewer, blocks are smaller
inline constexpr std::int64_t kMostHashBlocks = 8192;                   // and with more they are larger
inline constexpr int kHashPoints = 128;                                 // of an owner, on the ring
inline constexpr double kHashSlack = 0.05;

// Elements of a block of this unit: 4,096; twice, four times, ... as many where it has more than 8,192 blocks else; a half, a
// quarter, ... where it has fewer than 256 else, but no less than 64 elements, nor than its alignment.
std::int64_t hash_block(const Unit& unit);

std::string_view name_of(Cut cut);
// Throws ConfigError under "zero.shards" for a name that is no cut's.
Cut cut_of(std::string_view name);

// `units` as make_units() has made them. Each parameter, or each block, has one owner of [0, owners). kWeighted needs weights:
// weighted_units() (zero/plan/weighted_cut.h) makes it.
std::vector<Unit> cut_units(std::vector<Unit> units, Cut cut, int owners);

// Elements of parameters, by owner.
std::vector<std::int64_t> owned_numel(const std::vector<Unit>& units, int owners);

// The share of the elements of parameters that have another owner in `to` than in `from`: the same parameters, cut for
// `from_owners` and `to_owners`.
double moved_share(const std::vector<Unit>& from, int from_owners, const std::vector<Unit>& to, int to_owners);

}  // namespace zero
