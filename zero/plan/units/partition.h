// Shard: one rank's part of a unit. Only shard_of() computes where it begins.
//
//   shard_of(unit, rank, world) == {offset = rank * n, numel = n},  n = ceil(unit.numel / world) rounded up to the
//                                                                  unit's alignment and grain
//
// Every rank's shard has the same size, so collectives move equal blocks. The flat range is padded at its end to a
// total of world * n elements, so the last ranks hold the padding. Padding is zero and is never updated;
// padding_numel() returns its size.
//
// Shards of a unit that is cut by weights (zero/plan/units/weighted_cut.h) differ in size: Unit::bounds separates them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "zero/plan/units/unit.h"

namespace zero {

struct Shard {
  std::int64_t offset = 0;
  std::int64_t numel = 0;
  bool operator==(const Shard&) const = default;
};

// Returns the elements of a shard; for a unit that is cut by weights, of the shard of Unit::own.
inline std::int64_t shard_numel(const Unit& unit, int world) {
  if (!unit.bounds.empty()) {
    const auto own = static_cast<std::size_t>(unit.own);
    return unit.bounds[own + 1] - unit.bounds[own];
  }
  const std::int64_t align = alignment_numel(unit);
  const std::int64_t share = (unit.numel + world - 1) / world;
  return (share + align - 1) / align * align;
}

inline Shard shard_of(const Unit& unit, int rank, int world) {
  if (!unit.bounds.empty()) {
    const auto owner = static_cast<std::size_t>(rank);
    return {unit.bounds[owner], unit.bounds[owner + 1] - unit.bounds[owner]};
  }
  const std::int64_t numel = shard_numel(unit, world);
  return {rank * numel, numel};
}

// Returns the elements of the padded flat range, which is the total of all shards.
inline std::int64_t padded_numel(const Unit& unit, int world) {
  if (!unit.bounds.empty()) return unit.bounds.back();
  return world * shard_numel(unit, world);
}

// Returns the elements of the unit's parameters.
inline std::int64_t used_numel(const Unit& unit) {
  std::int64_t used = 0;
  for (const Slice& slice : unit.slices) used += slice.numel;
  return used;
}

// Returns the elements of the padded range that belong to no parameter.
inline std::int64_t padding_numel(const Unit& unit, int world) {
  return padded_numel(unit, world) - used_numel(unit);
}

// The part of a slice within [range.offset, range.offset + range.numel), in elements of the unit's flat range.
struct SlicePart {
  std::int64_t offset = 0;
  std::int64_t numel = 0;  // 0: no overlap
  std::int64_t begin = 0;  // index of its first element in the parameter
};
inline SlicePart overlap(const Slice& slice, const Shard& range) {
  const std::int64_t begin = std::max(slice.offset, range.offset);
  const std::int64_t end = std::min(slice.offset + slice.numel, range.offset + range.numel);
  return {begin, std::max<std::int64_t>(end - begin, 0), slice.begin + begin - slice.offset};
}

// Returns the unit's slices as the shards store them, in the order of their offsets.
inline const std::vector<Slice>& owned_slices(const Unit& unit) {
  return unit.owned.empty() ? unit.slices : unit.owned;
}

// Returns the owned slices that overlap with a part of the flat range. Empty slices may be among them.
inline std::span<const Slice> owned_in(const Unit& unit, const Shard& range) {
  const std::span<const Slice> all = owned_slices(unit);
  const auto first =
      std::ranges::partition_point(all, [&](const Slice& slice) { return slice.offset + slice.numel <= range.offset; });
  const auto last = std::partition_point(first, all.end(),
                                         [&](const Slice& slice) { return slice.offset < range.offset + range.numel; });
  return {first, last};
}

// Returns whether no shard ends within a slice, so one rank has each parameter of the unit whole.
inline bool has_whole_slices(const Unit& unit, int world) {
  return std::ranges::all_of(owned_slices(unit), [&](const Slice& slice) {
    if (slice.numel == 0) return true;
    if (unit.bounds.empty()) {
      const std::int64_t shard = shard_numel(unit, world);
      return slice.offset / shard == (slice.offset + slice.numel - 1) / shard;
    }
    return std::ranges::none_of(
        unit.bounds, [&](std::int64_t bound) { return slice.offset < bound && bound < slice.offset + slice.numel; });
  });
}

// Calls use(offset, whole, numel) for each stretch of `range` that is contiguous in both orders. It is at `offset` in
// the flat range, and at `whole` in the order of parameters. Padding is left out.
template <typename Use>
void for_each_stretch(const Unit& unit, const Shard& range, Use use) {
  if (!unit.scattered) {
    const std::int64_t numel = std::min(range.numel, unit.numel - range.offset);
    if (numel > 0) use(range.offset, range.offset, numel);
    return;
  }
  for (const Slice& slice : owned_in(unit, range)) {
    const SlicePart part = overlap(slice, range);
    if (part.numel > 0) use(part.offset, part.offset + slice.shift, part.numel);
  }
}

}  // namespace zero
