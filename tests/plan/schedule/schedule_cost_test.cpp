// The bytes that a schedule moves between tiers, counted by hand.
#include <gtest/gtest.h>

#include "zero/plan/schedule/schedule.h"

#include "tests/plan/gpt_like.h"
#include "tests/plan/one_unit.h"
#include "tests/support/fp32_states.h"

namespace zero {
namespace {

constexpr std::int64_t kShard = 3 * kBlockNumel + 1024;  // elements; whole pages in every type

struct Case {
  StateFractions fractions;
  DType dtype = DType::kFloat32;
  int accumulate = 1;
  OptimizerSpec spec;
  GatherBudget budget{};
};

// One unit on two ranks. It is gathered once a pass under the min budget, otherwise once a step.
ScheduleCost cost_of(const Case& c) {
  const std::vector<Unit> units{one_unit(2 * kShard, c.dtype)};
  Placement placement = place(3, Reduce::kEach, c.accumulate);
  spread_over_tiers(placement, units, 2, c.fractions);
  const Schedule schedule = build_schedule(straight_trace(units, c.accumulate), units, 2, placement, c.budget);
  return simulate(schedule, units, 2, c.spec);
}

TierTraffic traffic(std::int64_t read, std::int64_t written) {
  return {.read_bytes = read, .written_bytes = written};
}

TEST(ScheduleCost, DevicePlacementMovesNothing) {
  const ScheduleCost cost = cost_of({});
  for (const Tier tier : kAllTiers) EXPECT_EQ(cost.of(tier), TierTraffic{}) << name_of(tier);
  EXPECT_EQ(cost.num_prefetches + cost.num_offloads, 0);
}

// Codecs of gathers and of reductions.
TEST(ScheduleCost, SendsBytesOfItsCodecs) {
  const std::vector<Unit> units{one_unit(2 * kShard, DType::kFloat32)};
  Placement placement = place(3, Reduce::kEach, 1);
  placement.wire = {.gather = WireCodec::kInt8, .reduce = WireCodec::kInt4};
  const Schedule schedule = build_schedule(straight_trace(units, 1), units, 2, placement, {GatherBudget::kMin});
  const ScheduleCost cost = simulate(schedule, units, 2);
  EXPECT_EQ(cost.sent_bytes, cost.num_gathers * wire_bytes(WireCodec::kInt8, kShard, DType::kFloat32) +
                                 wire_bytes(WireCodec::kInt4, kShard, DType::kFloat32));
}

TEST(ScheduleCost, MomentsAreReadAndWrittenOnce) {
  const ScheduleCost cost = cost_of({.fractions = {.optimizer = {.disk = 1}}});
  EXPECT_EQ(cost.of(Tier::kDisk), traffic(8 * kShard, 8 * kShard));
  EXPECT_EQ(cost.of(Tier::kHost), TierTraffic{});
  EXPECT_EQ(cost_of({.fractions = {.optimizer = {.disk = 1}}, .spec = fp32_states(1)}).of(Tier::kDisk),
            traffic(4 * kShard, 4 * kShard));
  EXPECT_EQ(cost_of({.fractions = {.optimizer = {.disk = 1}}, .spec = fp32_states(0)}).of(Tier::kDisk), TierTraffic{});
}

TEST(ScheduleCost, EightBitMomentsMoveCodesOnly) {
  const OptimizerSpec coded{.states = {{.name = "a", .code = StateCode::kSigned8}}};
  EXPECT_EQ(cost_of({.fractions = {.optimizer = {.host = 1}}, .spec = coded}).of(Tier::kHost), traffic(kShard, kShard));
}

TEST(ScheduleCost, MasterMovesLikeAMoment) {
  EXPECT_EQ(cost_of({.fractions = {.optimizer = {.host = 1}}, .dtype = DType::kBFloat16}).of(Tier::kHost),
            traffic(12 * kShard, 12 * kShard));
}

TEST(ScheduleCost, ReadsParametersPerGatherAndUpdate) {
  const StateFractions host{.parameter = {.host = 1}};
  const ScheduleCost kept = cost_of({.fractions = host});
  EXPECT_EQ(kept.num_prefetches, kept.num_gathers);
  EXPECT_EQ(kept.of(Tier::kHost), traffic(2 * 4 * kShard, 4 * kShard));
  const ScheduleCost minimum = cost_of({.fractions = host, .budget = {GatherBudget::kMin}});
  EXPECT_EQ(minimum.num_prefetches, 2);
  EXPECT_EQ(minimum.of(Tier::kHost), traffic(3 * 4 * kShard, 4 * kShard));
}

TEST(ScheduleCost, OffloadsGradientThenUpdateReadsIt) {
  const ScheduleCost cost = cost_of({.fractions = {.gradient = {.disk = 1}}});
  EXPECT_EQ(cost.num_offloads, 1);
  EXPECT_EQ(cost.of(Tier::kDisk), traffic(4 * kShard, 4 * kShard));
}

// Later micro-batches fetch the sum so far.
TEST(ScheduleCost, LaterMicroBatchesFetchSum) {
  const ScheduleCost cost = cost_of({.fractions = {.gradient = {.disk = 1}}, .accumulate = 3});
  EXPECT_EQ(cost.num_offloads, 3);
  EXPECT_EQ(cost.of(Tier::kDisk), traffic((2 + 1) * 4 * kShard, 3 * 4 * kShard));
  // For bf16 gradients the sum is fp32. It is rounded once more before the norm is known.
  const ScheduleCost rounded =
      cost_of({.fractions = {.gradient = {.disk = 1}}, .dtype = DType::kBFloat16, .accumulate = 3});
  EXPECT_EQ(rounded.of(Tier::kDisk), traffic((2 + 1 + 1) * 4 * kShard, (3 + 1) * 4 * kShard));
}

TEST(ScheduleCost, SplitStateMovesPartsPerTier) {
  const ScheduleCost cost = cost_of({.fractions = {.optimizer = {.host = 0.4, .disk = 0.3}}});
  const std::int64_t host = cost.of(Tier::kHost).read_bytes, disk = cost.of(Tier::kDisk).read_bytes;
  EXPECT_EQ(host % (8 * kBlockNumel), 0) << "blocks of both moments";
  EXPECT_GT(host, 0);
  EXPECT_GT(disk, 0);
  EXPECT_LE(host + disk, 8 * kShard);
}

TEST(ScheduleCost, OnDiskWholePagesCount) {
  const std::vector<Unit> units{one_unit(16, DType::kFloat32)};
  Placement placement = place(2, Reduce::kEach, 1);
  spread_over_tiers(placement, units, 1, {.gradient = {.disk = 1}, .optimizer = {.disk = 1}});
  const ScheduleCost cost = simulate(build_schedule(straight_trace(units), units, 1, placement, {}), units, 1);
  EXPECT_EQ(cost.of(Tier::kDisk), traffic(3 * kDiskPageBytes, 3 * kDiskPageBytes));
}

}  // namespace
}  // namespace zero
