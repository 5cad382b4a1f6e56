#include "zero/base/numbers/tier.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "zero/base/numbers/tier_bytes.h"

namespace zero {
namespace {

TEST(TierTable, RowsFollowTheEnum) {
  for (std::size_t row = 0; row < kTierTable.size(); ++row) EXPECT_EQ(index_of(kTierTable[row].tier), row);
}

// The cost decides between placements with equal step times: states leave a faster tier only if they must.
TEST(TierTable, SlowerTiersCostMore) {
  EXPECT_TRUE(std::ranges::is_sorted(kTierTable, std::ranges::less{}, &TierFacts::cost));
  EXPECT_EQ(facts_of(Tier::kDevice).cost, 0);
}

TEST(TierTable, BudgetKeysNameTheirTier) {
  for (const Tier tier : kAllTiers) EXPECT_EQ(facts_of(tier).budget, "zero." + std::string(name_of(tier)) + "_memory");
}

TEST(TierTable, FindsTiersByNameAndKey) {
  for (const TierFacts& tier : kTierTable) {
    EXPECT_EQ(find_tier(tier.name), &tier) << tier.name;
    EXPECT_EQ(find_tier_of_budget(tier.budget), &tier) << tier.budget;
  }
  EXPECT_EQ(find_tier("none"), nullptr);
  EXPECT_EQ(find_tier_of_budget("zero.disk"), nullptr);
}

TEST(TierTable, ReportKeysDiffer) {
  std::set<std::string_view> keys;
  for (const TierFacts& tier : kTierTable) {
    EXPECT_TRUE(keys.insert(tier.held_key).second) << tier.held_key;
    EXPECT_TRUE(tier.peak_key.empty() || keys.insert(tier.peak_key).second) << tier.peak_key;
  }
}

TEST(TierTable, RequestTiersAreNoMemory) {
  for (const Tier tier : kAllTiers)
    EXPECT_EQ(std::ranges::find(kRequestTiers, tier) == kRequestTiers.end(), is_memory(tier)) << name_of(tier);
}

TEST(PerTier, EachTierHasItsOwnValue) {
  PerTier<std::int64_t> bytes;
  std::int64_t sum = 0;
  for (const Tier tier : kAllTiers) sum += bytes[tier] = std::int64_t{1} << index_of(tier);
  for (const Tier tier : kAllTiers) {
    EXPECT_EQ(bytes[tier], std::int64_t{1} << index_of(tier));
    EXPECT_EQ(bytes.before(tier), (std::int64_t{1} << index_of(tier)) - 1);
  }
  EXPECT_EQ(bytes.total(), sum);
}

TEST(PerTier, SumsAddUpByTier) {
  PerTier<std::int64_t> sum;
  PerTier<std::int64_t> more;
  for (const Tier tier : kAllTiers) sum[tier] = 100 * (more[tier] = static_cast<std::int64_t>(index_of(tier)) + 1);
  sum += more;
  for (const Tier tier : kAllTiers) EXPECT_EQ(sum[tier], 101 * more[tier]) << name_of(tier);
}

TEST(PerLowerTier, OnDeviceIfAllZero) {
  EXPECT_TRUE(PerLowerTier<double>{}.on_device());
  for (const Tier tier : kLowerTiers) {
    PerLowerTier<double> fractions;
    fractions[tier] = 0.25;
    EXPECT_FALSE(fractions.on_device()) << name_of(tier);
    EXPECT_EQ(fractions[tier], 0.25);
  }
}

TEST(TierBytes, TextListsEveryTier) {
  std::string expected;
  for (const Tier tier : kAllTiers) {
    if (!expected.empty()) expected += tier == kLastTier ? "@" : ", ";
    expected += std::to_string(index_of(tier)) + (index_of(tier) == 0 ? " B " : ".00 MiB ");
    expected += facts_of(tier).phrase;
  }
  const auto joined = [&expected](std::string_view last) {
    std::string text = expected;
    return text.replace(text.find('@'), 1, last);
  };
  const auto bytes_of = [](Tier tier) { return static_cast<std::int64_t>(index_of(tier)) << 20; };
  EXPECT_EQ(format_by_tier(bytes_of), joined(", "));
  EXPECT_EQ(format_by_tier(bytes_of, " and "), joined(" and "));
}

}  // namespace
}  // namespace zero
