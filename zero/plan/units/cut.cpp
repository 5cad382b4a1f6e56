#include "zero/plan/units/cut.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

constexpr std::array<std::pair<std::string_view, Cut>, 4> kCuts{
    {{"range", Cut::kRange}, {"whole", Cut::kWhole}, {"hash", Cut::kHash}, {"weighted", Cut::kWeighted}}};

// For each owner, its ranges of the unit's flat range, in ascending order.
using OwnedRanges = std::vector<std::vector<Shard>>;

std::int64_t aligned(const Unit& unit, std::int64_t numel) {
  const std::int64_t align = alignment_numel(unit);
  return (numel + align - 1) / align * align;
}

OwnedRanges empty_ranges(int owners) {
  return OwnedRanges(static_cast<std::size_t>(owners));
}

OwnedRanges whole_ranges(const Unit& unit, std::vector<std::int64_t>& of_model) {
  std::vector<Slice> slices = unit.slices;
  std::ranges::stable_sort(slices, std::ranges::greater{}, &Slice::numel);
  OwnedRanges ranges(of_model.size());
  std::vector<std::int64_t> of_unit(of_model.size(), 0);
  for (const Slice& slice : slices) {
    if (slice.numel == 0) continue;
    std::size_t owner = 0;
    for (std::size_t other = 1; other < of_unit.size(); ++other) {
      if (std::pair(of_unit[other], of_model[other]) < std::pair(of_unit[owner], of_model[owner])) owner = other;
    }
    ranges[owner].push_back({slice.offset, slice.numel});
    of_unit[owner] += aligned(unit, slice.numel);
    of_model[owner] += aligned(unit, slice.numel);
  }
  for (auto& of_owner : ranges) std::ranges::sort(of_owner, {}, &Shard::offset);
  return ranges;
}

// Hashes with the finalizer of SplitMix64, so all machines compute the same value.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15U;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

class Ring {
 public:
  explicit Ring(int owners) : owners_(owners) {
    for (int owner = 0; owner < owners; ++owner) {
      for (int point = 0; point < kHashPoints; ++point)
        points_.emplace_back(mix(mix(static_cast<std::uint64_t>(owner)) + static_cast<std::uint64_t>(point)), owner);
    }
    std::ranges::sort(points_);
  }

  OwnedRanges ranges_of(const Unit& unit) const {
    const std::int64_t size = hash_block(unit), blocks = (unit.numel + size - 1) / size;
    const auto most = static_cast<std::int64_t>(std::ceil((1 + kHashSlack) * static_cast<double>(blocks) / owners_));
    std::vector<std::int64_t> load(static_cast<std::size_t>(owners_), 0);
    OwnedRanges ranges = empty_ranges(owners_);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::size_t owner = owner_of(key_of(unit, block), load, most);
      ++load[owner];
      const std::int64_t begin = block * size, numel = std::min(size, unit.numel - begin);
      auto& mine = ranges[owner];
      if (!mine.empty() && mine.back().offset + mine.back().numel == begin) {
        mine.back().numel += numel;
      } else {
        mine.push_back({begin, numel});
      }
    }
    return ranges;
  }

 private:
  static std::uint64_t key_of(const Unit& unit, std::int64_t block) {
    return mix(mix(~static_cast<std::uint64_t>(unit.index)) + static_cast<std::uint64_t>(block));
  }

  // Returns the next owner on the ring that has room. All owners together have room for more than the unit's blocks.
  std::size_t owner_of(std::uint64_t key, const std::vector<std::int64_t>& load, std::int64_t most) const {
    auto at = std::ranges::lower_bound(points_, std::pair(key, 0));
    while (true) {
      if (at == points_.end()) at = points_.begin();
      const auto owner = static_cast<std::size_t>(at->second);
      if (load[owner] < most) return owner;
      ++at;
    }
  }

  int owners_;
  std::vector<std::pair<std::uint64_t, int>> points_;
};

// Lays out the flat range in the order of owners.
void lay_out(Unit& unit, const OwnedRanges& ranges) {
  ZERO_CHECK(unit.owned.empty(), "{} is cut already", unit.name);
  std::int64_t shard = 0;
  for (const auto& of_owner : ranges) {
    std::int64_t numel = 0;
    for (const Shard& range : of_owner) numel += aligned(unit, range.numel);
    shard = std::max(shard, numel);
  }
  std::vector<Slice> owned;
  for (std::size_t owner = 0; owner < ranges.size(); ++owner) {
    std::int64_t at = static_cast<std::int64_t>(owner) * shard;
    for (const Shard& range : ranges[owner]) {
      for (Slice slice : owned_in(unit, range)) {
        const SlicePart part = overlap(slice, range);
        if (part.numel == 0) continue;
        slice.offset = at + part.offset - range.offset;
        slice.shift = part.offset - slice.offset;
        slice.begin = part.begin;
        slice.numel = part.numel;
        owned.push_back(slice);
      }
      at += aligned(unit, range.numel);
    }
  }
  unit.numel = shard * static_cast<std::int64_t>(ranges.size());
  const auto used = std::ranges::count_if(unit.slices, [](const Slice& slice) { return slice.numel > 0; });
  unit.scattered = std::ssize(owned) > used;
  if (!unit.scattered) {  // each parameter is contiguous in its owner's shard
    std::map<int, std::int64_t> offsets;
    for (Slice& slice : owned) {
      slice.shift = 0;
      offsets[slice.param] = slice.offset;
    }
    for (Slice& slice : unit.slices) slice.offset = slice.numel > 0 ? offsets.at(slice.param) : 0;
  }
  unit.owned = std::move(owned);
}

// A contiguous range of one parameter's elements with one owner.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t numel = 0;
  int owner = 0;
};
using StretchesOfParams = std::map<int, std::vector<Stretch>>;

StretchesOfParams stretches_of(const std::vector<Unit>& units, int owners) {
  StretchesOfParams found;
  for (const Unit& unit : units) {
    for (int owner = 0; owner < owners; ++owner) {
      const Shard shard = shard_of(unit, owner, owners);
      for (const Slice& slice : owned_in(unit, shard)) {
        const SlicePart part = overlap(slice, shard);
        if (part.numel > 0) found[slice.param].push_back({part.begin, part.numel, owner});
      }
    }
  }
  for (auto& [param, stretches] : found) std::ranges::sort(stretches, {}, &Stretch::begin);
  return found;
}

}  // namespace

std::int64_t hash_block(const Unit& unit) {
  std::int64_t size = kHashBlock;
  while (size * kMostHashBlocks < unit.numel) size *= 2;
  const std::int64_t least = std::max(kLeastHashBlock, alignment_numel(unit));
  while (size * kFewHashBlocks > unit.numel && size % (2 * least) == 0) size /= 2;
  return size;
}

std::string_view name_of(Cut cut) {
  return std::ranges::find(kCuts, cut, &std::pair<std::string_view, Cut>::second)->first;
}

Cut cut_of(std::string_view name) {
  const auto* const found = std::ranges::find(kCuts, name, &std::pair<std::string_view, Cut>::first);
  if (found == kCuts.end())
    throw ConfigError("zero.shards", name, "units cannot be cut into shards in this way",
                      "use range (equal ranges), whole (whole parameters), hash (consistent hashing) or weighted (by "
                      "zero.shard_weights)");
  return found->second;
}

std::vector<Unit> cut_units(std::vector<Unit> units, Cut cut, int owners) {
  if (cut == Cut::kRange) return units;
  ZERO_CHECK(cut != Cut::kWeighted, "a weighted cut has weights");
  std::vector<std::int64_t> of_model(static_cast<std::size_t>(owners), 0);
  const Ring ring(owners);
  const bool matrices_alone = cut == Cut::kWhole && std::ranges::any_of(units, &Unit::whole_matrices);
  for (Unit& unit : units) {
    if (matrices_alone && !unit.whole_matrices()) continue;
    lay_out(unit, cut == Cut::kWhole ? whole_ranges(unit, of_model) : ring.ranges_of(unit));
  }
  return units;
}

std::vector<std::int64_t> owned_numel(const std::vector<Unit>& units, int owners) {
  std::vector<std::int64_t> numels(static_cast<std::size_t>(owners), 0);
  for (const auto& [param, stretches] : stretches_of(units, owners)) {
    for (const Stretch& stretch : stretches) numels[static_cast<std::size_t>(stretch.owner)] += stretch.numel;
  }
  return numels;
}

double moved_share(const std::vector<Unit>& from, int from_owners, const std::vector<Unit>& to, int to_owners) {
  const StretchesOfParams before = stretches_of(from, from_owners), after = stretches_of(to, to_owners);
  std::int64_t all = 0, moved = 0;
  for (const auto& [param, stretches] : before) {
    const std::vector<Stretch>& others = after.at(param);
    auto other = others.begin();
    for (const Stretch& stretch : stretches) {
      all += stretch.numel;
      const std::int64_t end = stretch.begin + stretch.numel;
      for (std::int64_t at = stretch.begin; at < end;) {
        const std::int64_t until = std::min(end, other->begin + other->numel);
        if (other->owner != stretch.owner) moved += until - at;
        at = until;
        if (at == other->begin + other->numel) ++other;
      }
    }
  }
  return all == 0 ? 0 : static_cast<double>(moved) / static_cast<double>(all);
}

}  // namespace zero
