#include "zero/plan/served/pushed_part.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/plan/units/cut.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/weighted_cut.h"

namespace zero {
namespace {

// A few parameters: some are empty, some have several hash blocks.
std::vector<Unit> model_units() {
  std::vector<ParamSpec> specs;
  const DType dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16);
  const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 30000));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    specs.push_back({.name = "h.0.p" + std::to_string(i), .shape = {sizes[i]}, .dtype = dtype});
  return make_units(specs, {}, *rc::gen::element(1, 256));
}

std::vector<Unit> cut_for_servers(const std::vector<Unit>& whole, int servers) {
  const Cut cut = *rc::gen::element(Cut::kRange, Cut::kWhole, Cut::kHash, Cut::kWeighted);
  if (cut != Cut::kWeighted) return cut_units(whole, cut, servers);
  std::vector<double> weights;
  for (int server = 0; server < servers; ++server) weights.push_back(*rc::gen::inRange(1, 9));
  return weighted_units(whole, weights, 0);
}

// (parameter, element): its place in an owner's flat range.
using Places = std::map<std::pair<int, std::int64_t>, std::int64_t>;
Places places_in(const Unit& unit, const Shard& range) {
  Places places;
  for (const Slice& slice : owned_in(unit, range)) {
    const SlicePart part = overlap(slice, range);
    for (std::int64_t i = 0; i < part.numel; i += 997)
      places[{slice.param, part.begin + i}] = part.offset + i - range.offset;
  }
  return places;
}

// The parts of all servers together cover a worker's range once.
RC_GTEST_PROP(PushedPart, PartsTileWorkersRangeOnce, ()) {
  const int servers = *rc::gen::inRange(1, 6);
  const std::vector<Unit> whole = model_units(), cut = cut_for_servers(whole, servers);
  for (std::size_t unit = 0; unit < whole.size(); ++unit) {
    std::vector<PushedStretch> all;
    for (int server = 0; server < servers; ++server) {
      std::int64_t at = 0;
      for (const PushedStretch& stretch : pushed_stretches(whole[unit], cut[unit], server, servers)) {
        RC_ASSERT(stretch.shard == at);
        at += stretch.numel;
        all.push_back(stretch);
      }
      RC_ASSERT(at <= shard_of(cut[unit], server, servers).numel);
    }
    std::ranges::sort(all, {}, &PushedStretch::whole);
    std::int64_t covered = 0;
    for (const PushedStretch& stretch : all) {
      RC_ASSERT(stretch.whole == covered);
      covered += stretch.numel;
    }
    RC_ASSERT(covered == padded_numel(whole[unit], 1));
  }
}

RC_GTEST_PROP(PushedPart, ElementMatchesOnBothSides, ()) {
  const int servers = *rc::gen::inRange(1, 6);
  const std::vector<Unit> whole = model_units(), cut = cut_for_servers(whole, servers);
  for (std::size_t unit = 0; unit < whole.size(); ++unit) {
    for (int server = 0; server < servers; ++server) {
      const auto part = pushed_stretches(whole[unit], cut[unit], server, servers);
      for (const auto& [element, place] : places_in(cut[unit], shard_of(cut[unit], server, servers))) {
        const auto stretch = std::ranges::find_if(
            part, [place = place](const PushedStretch& s) { return s.shard <= place && place < s.shard + s.numel; });
        RC_ASSERT(stretch != part.end());
        const auto slice = std::ranges::find(whole[unit].slices, element.first, &Slice::param);
        RC_ASSERT(stretch->whole + place - stretch->shard == slice->offset + element.second);
      }
    }
  }
}

// With other cuts a part is already contiguous.
TEST(PushedPart, OnlyHashedBlocksNeedPacking) {
  const std::vector<Unit> whole = make_units({{.name = "weight", .shape = {100, 1000}}}, {});
  const auto bytes = [](const Unit&) { return 4; };
  EXPECT_EQ(pushed_stretches(whole[0], cut_units(whole, Cut::kRange, 2)[0], 1, 2),
            (std::vector<PushedStretch>{{.whole = 50000, .shard = 0, .numel = 50000}}));
  EXPECT_EQ(pushed_block_bytes(whole, cut_units(whole, Cut::kRange, 2), 2, bytes), 0);
  const std::vector<Unit> hashed = cut_units(whole, Cut::kHash, 2);
  EXPECT_GT(pushed_stretches(whole[0], hashed[0], 0, 2).size(), 2U);
  EXPECT_EQ(pushed_block_bytes(whole, hashed, 2, bytes), 4 * 100000) << "one unit: all of it";
}

}  // namespace
}  // namespace zero
