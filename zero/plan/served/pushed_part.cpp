#include "zero/plan/served/pushed_part.h"

#include <algorithm>

#include "zero/base/error/check.h"
#include "zero/plan/units/partition.h"

namespace zero {
namespace {

std::vector<PushedStretch> part_of_range(const Unit& whole, const Shard& shard) {
  const std::int64_t numel = std::clamp<std::int64_t>(padded_numel(whole, 1) - shard.offset, 0, shard.numel);
  if (numel == 0) return {};
  return {{.whole = shard.offset, .shard = 0, .numel = numel}};
}

std::int64_t whole_place(const Unit& whole, int param) {
  const auto slice = std::ranges::lower_bound(whole.slices, param, {}, &Slice::param);
  ZERO_CHECK(slice != whole.slices.end() && slice->param == param, "{} has no parameter {}", whole.name, param);
  return slice->offset;
}

}  // namespace

std::vector<PushedStretch> pushed_stretches(const Unit& whole, const Unit& cut, int server, int servers) {
  const Shard shard = shard_of(cut, server, servers);
  if (cut.owned.empty()) return part_of_range(whole, shard);
  const std::int64_t align = alignment_numel(cut);
  std::vector<PushedStretch> part;
  for (const Slice& slice : owned_in(cut, shard)) {
    const SlicePart here = overlap(slice, shard);
    if (here.numel == 0) continue;
    // Rounded up to the alignment: a cut ends at a multiple, or the parameter ends, followed by a gap on both sides.
    const PushedStretch next{.whole = whole_place(whole, slice.param) + here.begin,
                             .shard = here.offset - shard.offset,
                             .numel = (here.numel + align - 1) / align * align};
    ZERO_CHECK(next.shard == numel_of(part), "a gap in server {}'s part of {}", server, cut.name);
    if (!part.empty() && part.back().whole + part.back().numel == next.whole) {
      part.back().numel += next.numel;
    } else {
      part.push_back(next);
    }
  }
  return part;
}

}  // namespace zero
