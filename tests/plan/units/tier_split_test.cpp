#include "zero/plan/units/tier_split.h"

#include <limits>
#include <numeric>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

std::vector<TierSplit> split(const std::vector<std::int64_t>& numels, TierFractions fractions) {
  return split_over_tiers(numels, fractions, "zero.optimizer");
}

// Without fractions everything stays on the device.
TEST(TierSplit, EverythingStaysOnDeviceByDefault) {
  for (const TierSplit& each : split({1, 4096, 1000000}, {})) EXPECT_TRUE(each.on_device());
}

TEST(TierSplit, AWholeGoesAwayWhole) {
  EXPECT_EQ(split({100, 5000}, {.host = 1}), (std::vector<TierSplit>{{.host = 100}, {.host = 5000}}));
  EXPECT_EQ(split({100, 5000}, {.disk = 1}), (std::vector<TierSplit>{{.disk = 100}, {.disk = 5000}}));
  EXPECT_EQ(split({100, 5000}, {.host = 0.9, .disk = 0.1})[0].device, 0) << "0.9 + 0.1 is the whole";
  EXPECT_EQ(split({1 << 20}, {.host = 0.7, .disk = 0.3})[0].device, 0);
}

TEST(TierSplit, ItsPartsFollowEachOther) {
  const TierSplit half = split({1 << 20}, {.host = 0.25, .disk = 0.25})[0];
  EXPECT_EQ(half, (TierSplit{.device = 1 << 19, .host = 1 << 18, .disk = 1 << 18}));
  EXPECT_EQ(half.begin(Tier::kDevice), 0);
  EXPECT_EQ(half.begin(Tier::kHost), 1 << 19);
  EXPECT_EQ(half.begin(Tier::kDisk), (1 << 19) + (1 << 18));
}

TEST(TierSplit, ElementsNameTheirTier) {
  const TierSplit split{.device = 10, .disk = 5};
  EXPECT_EQ(split.tier_of(9), Tier::kDevice);
  EXPECT_EQ(split.tier_of(10), Tier::kDisk);
  EXPECT_EQ(split.tier_of(15), Tier::kDisk) << "the end of the range";
  EXPECT_EQ((TierSplit{.device = 10}).tier_of(10), Tier::kDevice);
  EXPECT_EQ((TierSplit{.host = 10}).tier_of(10), Tier::kHost);
  EXPECT_EQ(TierSplit{}.tier_of(0), Tier::kDevice);
}

TEST(TierSplit, NextRangeTakesTheExcess) {
  // Half of 6000 elements is not a whole number of blocks.
  EXPECT_EQ(split({6000, 6000}, {.host = 0.5}), (std::vector<TierSplit>{{.host = 6000}, {.device = 6000}}));
}

// Rounding to blocks may give the device elements of a lower tier. The next units return them.
TEST(TierSplit, RoundingOnDeviceIsCompensated) {
  // 6000 elements are placed whole or split after one block of 4096. Device and host round at different units.
  std::int64_t host = 0, total = 0;
  for (const TierSplit& each : split(std::vector<std::int64_t>(100, 6000), {.host = 0.1, .disk = 0.4})) {
    host += each.host;
    total += each.numel();
  }
  EXPECT_NEAR(static_cast<double>(host), 0.1 * static_cast<double>(total), kBlockNumel);
}

TEST(TierSplit, RefusesInvalidFractionsByKey) {
  for (const TierFractions bad : {TierFractions{.host = -0.1}, TierFractions{.host = 0.6, .disk = 0.6},
                                  TierFractions{.disk = std::numeric_limits<double>::quiet_NaN()}}) {
    try {
      split({10}, bad);
      FAIL() << bad.host << " " << bad.disk;
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "zero.optimizer");
    }
  }
}

TEST(TierSplit, DiskTakesLastPageWhole) {
  const TierSplit all{.disk = 5000};
  EXPECT_EQ(tier_bytes(all, Tier::kDisk, 4), 5 * 4096);
  EXPECT_EQ(tier_bytes(all, Tier::kHost, 4), 0);
  EXPECT_EQ(tier_bytes({.host = 5000}, Tier::kHost, 4), 20000);
}

RC_GTEST_PROP(TierSplit, CoversRangesAtBlocksByFraction, ()) {
  const auto blocks =
      *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 200000)));
  const double host = *rc::gen::inRange(0, 101) / 100.0;
  const double disk = *rc::gen::inRange(0, 101) / 100.0 * (1 - host);
  const auto splits = split(blocks, {.host = host, .disk = disk});
  RC_ASSERT(splits.size() == blocks.size());
  std::int64_t device = 0, memory = 0, total = 0;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    RC_ASSERT(splits[i].numel() == blocks[i]);
    for (const Tier tier : kAllTiers) {
      RC_ASSERT(splits[i].numel(tier) >= 0);
      const std::int64_t begin = splits[i].begin(tier);
      RC_ASSERT((begin % kBlockNumel == 0) || (begin == blocks[i]));
    }
    device += splits[i].device;
    memory += splits[i].device + splits[i].host;
    total += blocks[i];
  }
  // Each boundary loses less than one block, and the host gets the elements that the device loses.
  const auto part = [&](double fraction) { return fraction * static_cast<double>(total); };
  const double block = kBlockNumel + 1;
  RC_ASSERT(static_cast<double>(device) <= part(1 - host - disk) + 1);
  RC_ASSERT(static_cast<double>(device) >= part(1 - host - disk) - block);
  RC_ASSERT(static_cast<double>(memory) >= part(1 - disk) - block);
  RC_ASSERT(static_cast<double>(memory - device) <= part(host) + block);
}

}  // namespace
}  // namespace zero
