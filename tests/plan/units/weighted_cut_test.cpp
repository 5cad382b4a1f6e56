#include "zero/plan/units/weighted_cut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/plan/units/cut.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"

#include "tests/plan/gpt_like.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

std::vector<double> some_weights() {
  std::vector<double> weights;
  const int owners = *rc::gen::inRange(1, 9);
  for (int owner = 0; owner < owners; ++owner) weights.push_back(*rc::gen::inRange(1, 1000) / 16.0);
  return weights;
}

std::vector<Unit> some_units() {
  std::vector<ParamSpec> specs;
  const DType dtype = *rc::gen::element(DType::kFloat32, DType::kBFloat16);
  const auto sizes =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 30000)));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    specs.push_back(
        {.name = "h." + std::to_string(i % 3) + ".p" + std::to_string(i), .shape = {sizes[i]}, .dtype = dtype});
  return make_units(specs, {}, *rc::gen::element(1, 256));
}

RC_GTEST_PROP(WeightedCut, ShardsFollowProportionsAndAreNonempty, ()) {
  const std::vector<double> weights = some_weights();
  const auto owners = static_cast<int>(weights.size());
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (const Unit& unit : weighted_units(some_units(), weights, 0)) {
    const std::int64_t align = alignment_numel(unit);
    std::int64_t end = 0;
    for (int owner = 0; owner < owners; ++owner) {
      const Shard shard = shard_of(unit, owner, owners);
      RC_ASSERT(shard.offset == end);
      RC_ASSERT(shard.numel >= align);
      RC_ASSERT(shard.numel % align == 0);
      end += shard.numel;
      const double share = weights[static_cast<std::size_t>(owner)] / all * static_cast<double>(unit.numel);
      RC_ASSERT(std::abs(static_cast<double>(shard.numel) - share) <= static_cast<double>((owners + 1) * align));
    }
    RC_ASSERT(end == padded_numel(unit, owners));
    RC_ASSERT(end - std::max(unit.numel, std::int64_t{1}) < owners * align);  // a unit without elements also has blocks
  }
}

// The bytes of all ranks add up to every block for every other rank.
RC_GTEST_PROP(WeightedCut, EveryBlockReachesEveryOtherRank, ()) {
  const std::vector<double> weights = some_weights();
  const auto owners = static_cast<int>(weights.size());
  const std::vector<Unit> units = weighted_units(some_units(), weights, 0);
  for (std::size_t u = 0; u < units.size(); ++u) {
    std::int64_t gathered = 0, reduced = 0;
    for (int owner = 0; owner < owners; ++owner) {
      const Unit unit = as_seen_by({units[u]}, owner).front();
      RC_ASSERT(shard_numel(unit, owners) == shard_of(unit, owner, owners).numel);
      gathered += gather_bytes(unit, owners, WireCodec::kNone);
      reduced += reduction_bytes(unit, owners, Placement(), WireCodec::kNone);
    }
    const std::int64_t whole = padded_numel(units[u], owners) * static_cast<std::int64_t>(size_of(units[u].dtype));
    RC_ASSERT(gathered == (owners - 1) * whole);
    RC_ASSERT(reduced == (owners - 1) * whole);
  }
}

TEST(WeightedCut, SplitsBlockIntoHalfAndQuarters) {
  const Unit unit{.slices = {{0, 0, 6400}}, .numel = 6400};
  const auto units = weighted_units({unit}, std::vector<double>{2, 1, 1}, 1);
  EXPECT_EQ(units.front().bounds, (std::vector<std::int64_t>{0, 3200, 4800, 6400}));
  EXPECT_EQ(shard_numel(units.front(), 3), 1600) << "of rank 1, for whom they speak";
  EXPECT_EQ(owned_numel(units, 3), (std::vector<std::int64_t>{3200, 1600, 1600}));
}

// Sizes are equal up to one block.
TEST(WeightedCut, EqualWeightsMatchEqualRanges) {
  const auto units = make_units(gpt_specs({.width = 64}), {});
  const auto weighted = weighted_units(units, std::vector<double>{1, 1, 1}, 0);
  for (std::size_t u = 0; u < units.size(); ++u)
    EXPECT_LE(std::abs(shard_numel(weighted[u], 3) - shard_numel(units[u], 3)), alignment_numel(units[u]));
}

// Weights must be one positive number for each rank.
TEST(WeightedCut, RefusesInvalidWeights) {
  const auto refusal = [](std::vector<double> weights) {
    return message_of<ConfigError>([&] { require_weights(weights, 3); });
  };
  EXPECT_NO_THROW(require_weights(std::vector<double>{2, 1, 1}, 3));
  EXPECT_TRUE(says(refusal({2, 1}), "2 weights for 3 ranks")) << refusal({2, 1});
  EXPECT_TRUE(says(refusal({2, 0, 1}), "above 0")) << refusal({2, 0, 1});
  EXPECT_TRUE(says(refusal({2, -1, 1}), "zero.shard_weights = [2, -1, 1]")) << refusal({2, -1, 1});
  for (const double bad : {std::numeric_limits<double>::infinity(), 1e39, 1e-60})
    EXPECT_TRUE(says(refusal({2, bad, 1}), "each must be a finite number above 0")) << bad;
}

}  // namespace
}  // namespace zero
