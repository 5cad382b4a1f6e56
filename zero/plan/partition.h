// Shard: one rank's part of a unit. shard_of() alone computes where it begins.
//
//   shard_of(unit, rank, world) == {offset = rank * n, numel = n},  n = ceil(unit.numel / world) rounded up to the
//                                                                  unit's alignment and grain
//
// Every rank's shard has the same size, so that collectives move equal blocks; the flat range is padded to world * n
// and the padding lies at the end: the last ranks hold it. Padding is zero, is never updated and is stated by
// padding_numel().
//
// Shards of a unit that is cut by weights (zero/plan/weighted_cut.h) differ in size: they lie between Unit::bounds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "zero/plan/unit.h"

namespace zero {

struct Shard {
  std::int64_t offset = 0;
  std::int64_t numel = 0;
  bool operator==(const Shard&) const = default;
};

// Elements of a shard; of a unit that is cut by weights, of the shard of Unit::own.
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

// Elements of the padded flat range: all shards.
inline std::int64_t padded_numel(const Unit& unit, int world) {
  if (!unit.bounds.empty()) return unit.bounds.back();
  return world * shard_numel(unit, world);
}

// Elements of the unit's parameters.
inline std::int64_t used_numel(const Unit& unit) {
  std::int64_t used = 0;
  for (const Slice& slice : unit.slices) used += slice.numel;
  return used;
}

// Elements of the padded range that are no parameter's.
inline std::int64_t padding_numel(const Unit& unit, int world) {
  return padded_numel(unit, world) - used_numel(unit);
}

// A slice's part that lies in [range.offset, range.offset + range.numel), in elements of the unit's flat range.
struct SlicePart {
  std::int64_t offset = 0;
  std::int64_t numel = 0;  // 0: none of it
  std::int64_t begin = 0;  // its first element's place in the parameter
};
inline SlicePart overlap(const Slice& slice, const Shard& range) {
  const std::int64_t begin = std::max(slice.offset, range.offset);
  const std::int64_t end = std::min(slice.offset + slice.numel, range.offset + range.numel);
  return {begin, std::max<std::int64_t>(end - begin, 0), slice.begin + begin - slice.offset};
}

// The unit's slices as shards have them, in the order of their offsets.
inline const std::vector<Slice>& owned_slices(const Unit& unit) {
  return unit.owned.empty() ? unit.slices : unit.owned;
}

// Of these, all that overlap with a range of the flat range, and perhaps empty ones.
inline std::span<const Slice> owned_in(const Unit& unit, const Shard& range) {
  const std::span<const Slice> all = owned_slices(unit);
  const auto first =
      std::ranges::partition_point(all, [&](const Slice& slice) { return slice.offset + slice.numel <= range.offset; });
  const auto last = std::partition_point(first, all.end(),
                                         [&](const Slice& slice) { return slice.offset < range.offset + range.numel; });
  return {first, last};
}

// Whether no shard ends within a slice, so that one rank has each of the unit's parameters whole.
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

// Calls use(offset, whole, numel) for stretches of a range that lie together in the flat range, at `offset`, and where the
// parameters are whole, at `whole`: all of the range but padding.
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
