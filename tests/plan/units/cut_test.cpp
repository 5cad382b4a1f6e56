#include "zero/plan/units/cut.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/exact_sum.h"
#include "zero/plan/units/partition.h"

#include "tests/plan/gpt_like.h"

namespace zero {
namespace {

constexpr Cut kCuts[] = {Cut::kRange, Cut::kWhole, Cut::kHash};

// A few units with a few parameters each, some of them empty.
std::vector<Unit> some_units() {
  std::vector<ParamSpec> specs;
  const DType dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16);
  const int num_units = *rc::gen::inRange(1, 5);
  for (int unit = 0; unit < num_units; ++unit) {
    const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 30000));
    for (std::size_t i = 0; i < sizes.size(); ++i)
      specs.push_back(
          {.name = "h." + std::to_string(unit) + ".p" + std::to_string(i), .shape = {sizes[i]}, .dtype = dtype});
  }
  return make_units(specs, {}, *rc::gen::element(1, 256));
}

Cut any_cut() {
  return *rc::gen::elementOf(std::vector<Cut>(std::begin(kCuts), std::end(kCuts)));
}

RC_GTEST_PROP(Cut, ShardsTileEveryParameterOnce, ()) {
  const int owners = *rc::gen::inRange(1, 9);
  const std::vector<Unit> whole = some_units(), units = cut_units(whole, any_cut(), owners);
  for (const Unit& unit : units) {
    RC_ASSERT(unit.owned.empty() || padded_numel(unit, owners) == unit.numel);
    for (const Slice& slice : unit.slices) {
      std::vector<SlicePart> parts;
      for (int owner = 0; owner < owners; ++owner) {
        const Shard shard = shard_of(unit, owner, owners);
        for (const Slice& owned : owned_in(unit, shard)) {
          if (const SlicePart part = overlap(owned, shard); owned.param == slice.param && part.numel > 0)
            parts.push_back(part);
        }
      }
      std::ranges::sort(parts, {}, &SlicePart::begin);
      std::int64_t covered = 0;
      for (const SlicePart& part : parts) {
        RC_ASSERT(part.begin == covered);
        RC_ASSERT(part.offset % alignment_numel(unit) == part.begin % alignment_numel(unit));
        RC_ASSERT(part.offset % kSumBlock == 0 &&
                  part.begin % kSumBlock == 0);  // so norms have the same terms with every cut
        covered += part.numel;
      }
      RC_ASSERT(covered == slice.numel);
    }
  }
}

RC_GTEST_PROP(Cut, SlicesAscendWithoutOverlap, ()) {
  for (const Unit& unit : cut_units(some_units(), any_cut(), *rc::gen::inRange(1, 9))) {
    std::int64_t end = 0;
    for (const Slice& slice : owned_slices(unit)) {
      RC_ASSERT(slice.offset >= end);
      end = slice.offset + slice.numel;
    }
    RC_ASSERT(end <= unit.numel);
  }
}

// Each element gets a value from its place in its parameter. The values are copied into the order of owners and back.
RC_GTEST_PROP(CutSlow, StretchesMapElementsToParameters, ()) {
  const int owners = *rc::gen::inRange(1, 9);
  for (const Unit& unit : cut_units(some_units(), any_cut(), owners)) {
    std::vector<int> flat(static_cast<std::size_t>(padded_numel(unit, owners)), -1), whole(flat.size(), -1);
    for (const Slice& slice : owned_slices(unit)) {
      for (std::int64_t i = 0; i < slice.numel; ++i)
        flat[static_cast<std::size_t>(slice.offset + i)] = static_cast<int>(slice.param * 100000 + slice.begin + i);
    }
    for (int owner = 0; owner < owners; ++owner) {
      for_each_stretch(unit, shard_of(unit, owner, owners), [&](std::int64_t at, std::int64_t to, std::int64_t numel) {
        std::copy_n(flat.begin() + at, numel, whole.begin() + to);
      });
    }
    for (const Slice& slice : unit.slices) {
      for (std::int64_t i = 0; i < slice.numel; ++i)
        RC_ASSERT(whole[static_cast<std::size_t>(slice.offset + i)] == slice.param * 100000 + i);
    }
  }
}

// No parameter is split, and no owner has far more than its share.
RC_GTEST_PROP(Cut, WholeKeepsParametersAndBalance, ()) {
  const int owners = *rc::gen::inRange(1, 9);
  const std::vector<Unit> before = some_units(), units = cut_units(before, Cut::kWhole, owners);
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Unit& unit = units[u];
    RC_ASSERT(!unit.scattered);
    const std::int64_t align = alignment_numel(unit);
    std::int64_t largest = 0, all = 0;
    for (const Slice& slice : unit.slices) {
      const std::int64_t numel = (slice.numel + align - 1) / align * align;
      largest = std::max(largest, numel);
      all += numel;
      int owned_by = 0;
      for (int owner = 0; owner < owners; ++owner)
        owned_by += overlap(slice, shard_of(unit, owner, owners)).numel > 0 ? 1 : 0;
      RC_ASSERT(owned_by == (slice.numel > 0 ? 1 : 0));
    }
    RC_ASSERT(shard_numel(unit, owners) <= all / owners + largest);
  }
}

std::vector<Unit> large_units() {
  return gpt_units({.layers = 4, .width = 256, .vocab = 20000});
}

// No owner has more than an equal share of blocks and the slack.
RC_GTEST_PROP(Cut, HashedLoadStaysWithinSlack, ()) {
  const int owners = *rc::gen::inRange(1, 65);
  const std::vector<Unit> before = *rc::gen::inRange(0, 12) > 0 ? some_units() : large_units();
  const std::vector<Unit> hashed = cut_units(before, Cut::kHash, owners);
  for (std::size_t unit = 0; unit < before.size(); ++unit) {
    const std::int64_t size = hash_block(before[unit]);
    const double blocks = std::ceil(static_cast<double>(before[unit].numel) / static_cast<double>(size));
    const double most = std::ceil((1 + kHashSlack) * blocks / owners) * static_cast<double>(size);
    RC_ASSERT(static_cast<double>(shard_numel(hashed[unit], owners)) <= most);
  }
}

// LeNet-5 and a perceptron of 784-256-10, each as one unit; a GPT as small as the example, and a larger GPT.
std::vector<std::vector<Unit>> moved_models() {
  const auto unit_of_shapes = [](const std::vector<std::vector<std::int64_t>>& shapes) {
    std::vector<ParamSpec> specs;
    for (const auto& shape : shapes) specs.push_back({.name = "p" + std::to_string(specs.size()), .shape = shape});
    return make_units(specs, {});
  };
  return {unit_of_shapes({{6, 1, 5, 5}, {6}, {16, 6, 5, 5}, {16}, {120, 400}, {120}, {84, 120}, {84}, {10, 84}, {10}}),
          unit_of_shapes({{256, 784}, {256}, {10, 256}, {10}}),
          gpt_units({.layers = 4, .width = 128, .vocab = 256, .context = 64}), large_units()};
}

TEST(Cut, NewHashedOwnerMovesLittleElse) {
  for (const std::vector<Unit>& units : moved_models()) {
    for (int owners = 1; owners <= 12; ++owners) {
      const auto moved = [&](Cut cut) {
        return moved_share(cut_units(units, cut, owners), owners, cut_units(units, cut, owners + 1), owners + 1);
      };
      const double share = 1.0 / (owners + 1);
      EXPECT_LE(moved(Cut::kHash), share + kHashSlack) << units.size() << " units, " << owners;
      EXPECT_GE(moved(Cut::kHash), share * 0.8) << units.size() << " units, " << owners;
      EXPECT_GE(moved(Cut::kRange), 0.4) << units.size() << " units, " << owners;
    }
  }
}

TEST(Cut, DepartedOwnersBlocksMoveBack) {
  for (const Cut cut : kCuts) {
    const auto two = cut_units(large_units(), cut, 2), three = cut_units(large_units(), cut, 3);
    EXPECT_EQ(moved_share(two, 2, three, 3), moved_share(three, 3, two, 2));
    EXPECT_EQ(moved_share(two, 2, two, 2), 0);
  }
}

// The sum over the owners is the number of elements with every cut.
TEST(Cut, OwnersHoldEachElementOnce) {
  const auto units = large_units();
  std::int64_t used = 0;
  for (const Unit& unit : units) used += used_numel(unit);
  for (const Cut cut : kCuts) {
    const auto numels = owned_numel(cut_units(units, cut, 5), 5);
    EXPECT_EQ(std::accumulate(numels.begin(), numels.end(), std::int64_t{0}), used) << name_of(cut);
  }
}

// The size of a block shrinks to the alignment of its unit.
TEST(Cut, SmallUnitHasSmallerBlocks) {
  Unit unit{.slices = {{0, 0, kFewHashBlocks * kHashBlock}}, .numel = kFewHashBlocks * kHashBlock};
  EXPECT_EQ(hash_block(unit), kHashBlock);
  unit.numel -= 1;
  EXPECT_EQ(hash_block(unit), kHashBlock / 2);
  unit.numel = 100;
  EXPECT_EQ(hash_block(unit), kLeastHashBlock);
  unit.grain = 1024;  // as for a rule with 8-bit states
  EXPECT_EQ(hash_block(unit), 1024);
}

// The number of blocks in a unit has a maximum.
TEST(Cut, LargeUnitHasLargerBlocks) {
  Unit unit{.slices = {{0, 0, kMostHashBlocks * kHashBlock}}, .numel = kMostHashBlocks * kHashBlock};
  EXPECT_EQ(hash_block(unit), kHashBlock);
  unit.slices.front().numel = unit.numel += 1;
  EXPECT_EQ(hash_block(unit), 2 * kHashBlock);
  const auto numels = owned_numel(cut_units({unit}, Cut::kHash, 2), 2);
  EXPECT_LE(std::max(numels[0], numels[1]), std::llround(1.05 * static_cast<double>(unit.numel) / 2) + 2 * kHashBlock);
}

TEST(Cut, HashesMatchOnEveryMachine) {
  constexpr std::int64_t kNumel = 8 * kLeastHashBlock;
  const Unit unit = cut_units({{.slices = {{0, 0, kNumel}}, .numel = kNumel}}, Cut::kHash, 2).front();
  std::vector<std::int64_t> blocks;
  for (const Slice& slice : owned_in(unit, shard_of(unit, 0, 2))) {
    for (std::int64_t at = 0; at < slice.numel; at += kLeastHashBlock)
      blocks.push_back((slice.begin + at) / kLeastHashBlock);
  }
  EXPECT_EQ(blocks, (std::vector<std::int64_t>{1, 2, 6, 7}));
}

TEST(Cut, OneOwnerHoldsEverythingInPlace) {
  for (const Cut cut : kCuts) {
    const auto units = large_units(), one = cut_units(units, cut, 1);
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      EXPECT_EQ(one[unit].slices, units[unit].slices) << name_of(cut);
      EXPECT_FALSE(one[unit].scattered);
    }
  }
}

TEST(Cut, ReadsNamesAndRefusesOthers) {
  for (const Cut cut : kCuts) EXPECT_EQ(cut_of(name_of(cut)), cut);
  EXPECT_THROW(cut_of("hashed"), ConfigError);
}

}  // namespace
}  // namespace zero
