// Cut: the rule that assigns the elements of a unit to owners. Values only.
//
//   std::vector<Unit> units = cut_units(make_units(specs, {}), Cut::kHash, 3);   // then shard_of(units[u], rank, 3)
//   moved_share(units, 3, cut_units(make_units(specs, {}), Cut::kHash, 4), 4)    // 0.26 of the elements change owner
//
// kRange is the identity: equal ranges of the flat range. kWeighted makes ranges in proportion to a weight of each
// owner. kWhole and kHash sort the flat range by owners (Unit::owned). An owner's elements are
// contiguous, and its part is padded to the size of the largest part. So shards stay equal blocks for collectives, and
// shard_of() stays valid.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "zero/plan/units/unit.h"

namespace zero {

// kWhole keeps parameters whole. The parameters of a unit are assigned in descending size, each to the owner with the
// least of this unit. If owners are equal, the one with the least of the model gets it. So no owner has more of a unit
// than an equal share plus the largest parameter. If matrices are updated as wholes (Unit::whole_matrices()), units of
// other parameters keep equal ranges. No update needs those whole, and a unit of one embedding would be padded to its
// full size for every owner.
//
// kHash is consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, arXiv:1608.01350) of blocks of 64 to
// 4,096 elements (hash_block()). Each owner has 128 points on a ring. A block goes to the next owner on the ring with
// room. An owner has room below 1.05 times an equal share of the unit, rounded up to whole blocks. With one owner more,
// about 1/(N+1) of the elements move.
enum class Cut : std::uint8_t { kRange, kWhole, kHash, kWeighted };

inline constexpr std::int64_t kHashBlock = 4096, kLeastHashBlock = 64;  // elements
inline constexpr std::int64_t kFewHashBlocks = 256;                     // a unit with fewer blocks gets smaller blocks
inline constexpr std::int64_t kMostHashBlocks = 8192;                   // a unit with more blocks gets larger blocks
inline constexpr int kHashPoints = 128;                                 // points per owner on the ring
inline constexpr double kHashSlack = 0.05;

// Returns the elements in a block of this unit: 4,096, doubled until the unit has at most 8,192 blocks. In a unit with
// fewer than 256 blocks it is halved, but not below 64 elements or the unit's alignment.
std::int64_t hash_block(const Unit& unit);

std::string_view name_of(Cut cut);
// Throws ConfigError under "zero.shards" for an unknown name.
Cut cut_of(std::string_view name);

// Cuts `units`, as made by make_units(). Each parameter (kWhole) or block (kHash) gets one owner in [0, owners). For
// kWeighted call weighted_units() (zero/plan/units/weighted_cut.h), which takes the weights.
std::vector<Unit> cut_units(std::vector<Unit> units, Cut cut, int owners);

// Returns the number of parameter elements of each owner.
std::vector<std::int64_t> owned_numel(const std::vector<Unit>& units, int owners);

// Returns the share of the parameters' elements whose owner differs between `from` and `to`: cuts of the same
// parameters for `from_owners` and `to_owners` owners.
double moved_share(const std::vector<Unit>& from, int from_owners, const std::vector<Unit>& to, int to_owners);

}  // namespace zero
