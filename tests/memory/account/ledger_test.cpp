#include "zero/memory/account/ledger.h"

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

using enum MemoryTag;

TEST(Ledger, HoldsChargesLessCredits) {
  Ledger ledger;
  ledger.charge(Tier::kDevice, kParameter, 100);
  ledger.charge(Tier::kDevice, kMoment, 50);
  ledger.charge(Tier::kHost, kParameter, 7);
  ledger.credit(Tier::kDevice, kParameter, 30);
  EXPECT_EQ(ledger.held(Tier::kDevice, kParameter), 70);
  EXPECT_EQ(ledger.held(Tier::kDevice).total(), 120);
  EXPECT_EQ(ledger.held(Tier::kHost).total(), 7);
  EXPECT_EQ(ledger.held(Tier::kDisk), MemoryCount{});
}

TEST(Ledger, StateExcludesGatheredStagedParked) {
  Ledger ledger;
  for (const MemoryTag tag : kAllMemoryTags) ledger.charge(Tier::kDevice, tag, 10);
  EXPECT_EQ(ledger.held(Tier::kDevice).total(), 80);
  EXPECT_EQ(ledger.held(Tier::kDevice).state(), 40);
}

TEST(MemoryCount, SumsAddUpByTag) {
  MemoryCount sum, more;
  std::int64_t bytes = 0;
  for (const MemoryTag tag : kAllMemoryTags) sum[tag] = 100 * (more[tag] = ++bytes);
  sum += more;
  for (const MemoryTag tag : kAllMemoryTags) EXPECT_EQ(sum[tag], 101 * more[tag]) << name_of(tag);
}

// Two tags alternate: each reaches 100, and their sum never exceeds 110. The peak of the sum differs from the sum of
// the peaks.
TEST(Ledger, PeakOfSumDiffersFromPeaks) {
  Ledger ledger;
  ledger.charge(Tier::kDevice, kGathered, 100);
  ledger.credit(Tier::kDevice, kGathered, 90);
  ledger.charge(Tier::kDevice, kGradient, 100);
  EXPECT_EQ(ledger.peak(Tier::kDevice)[kGathered], 100);
  EXPECT_EQ(ledger.peak(Tier::kDevice)[kGradient], 100);
  EXPECT_EQ(ledger.peak_total(Tier::kDevice), 110);
}

TEST(Ledger, PeaksRestartFromHeldBytes) {
  Ledger ledger;
  ledger.charge(Tier::kDevice, kGathered, 100);
  ledger.credit(Tier::kDevice, kGathered, 60);
  ledger.reset_peak();
  EXPECT_EQ(ledger.peak(Tier::kDevice)[kGathered], 40);
  EXPECT_EQ(ledger.peak_total(Tier::kDevice), 40);
  ledger.charge(Tier::kDevice, kGathered, 10);
  EXPECT_EQ(ledger.peak_total(Tier::kDevice), 50);
}

TEST(Ledger, ExcessCreditIsOurBug) {
  Ledger ledger;
  ledger.charge(Tier::kDevice, kParameter, 10);
  EXPECT_THROW(ledger.credit(Tier::kDevice, kParameter, 11), InternalError);
  EXPECT_THROW(ledger.credit(Tier::kDevice, kMoment, 1), InternalError) << "bytes of another tag do not count";
  EXPECT_THROW(ledger.charge(Tier::kDevice, kParameter, -1), InternalError);
}

RC_GTEST_PROP(Ledger, AgreesWithAListOfEvents, ()) {
  const auto sizes = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(-100, 100));
  Ledger ledger;
  std::int64_t now = 0;
  std::int64_t peak = 0;
  for (const auto size : sizes) {
    if (size >= 0) ledger.charge(Tier::kHost, kStaging, size);
    const auto back = std::min(-size, now);
    if (size < 0) ledger.credit(Tier::kHost, kStaging, back);
    now += size >= 0 ? size : -back;
    peak = std::max(peak, now);
  }
  RC_ASSERT(ledger.held(Tier::kHost, kStaging) == now);
  RC_ASSERT(ledger.peak(Tier::kHost)[kStaging] == peak);
  RC_ASSERT(ledger.peak_total(Tier::kHost) == peak);
}

TEST(Ledger, NoByteIsLostBetweenThreads) {
  Ledger ledger;
  constexpr int kThreads = 4;
  constexpr std::int64_t kBytes = 3;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&ledger] {
        for (int i = 0; i < 2000; ++i) {
          ledger.charge(Tier::kDevice, kGathered, kBytes);
          ledger.charge(Tier::kDevice, kMoment, 1);
          ledger.credit(Tier::kDevice, kGathered, kBytes);
        }
      });
    }
  }
  EXPECT_EQ(ledger.held(Tier::kDevice, kGathered), 0);
  EXPECT_EQ(ledger.held(Tier::kDevice, kMoment), kThreads * 2000);
  EXPECT_GE(ledger.peak(Tier::kDevice)[kGathered], kBytes);
  EXPECT_LE(ledger.peak(Tier::kDevice)[kGathered], kThreads * kBytes);
  EXPECT_GE(ledger.peak_total(Tier::kDevice), kThreads * 2000);
  EXPECT_LE(ledger.peak_total(Tier::kDevice), kThreads * (2000 + kBytes));
}

TEST(Ledger, TagsAndTiersHaveDistinctNames) {
  std::set<std::string_view> tags;
  for (const MemoryTag tag : kAllMemoryTags) tags.insert(name_of(tag));
  EXPECT_EQ(tags, (std::set<std::string_view>{"parameter", "gradient", "master", "moment", "gathered", "staging",
                                              "activation", "secondary"}));
  EXPECT_EQ(name_of(Tier::kDevice), "device");
  EXPECT_EQ(name_of(Tier::kHost), "host");
  EXPECT_EQ(name_of(Tier::kDisk), "disk");
}

}  // namespace
}  // namespace zero
