#include "zero/base/numbers/tier.h"

#include <algorithm>
#include <string>

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
  const PerTier<std::int64_t> bytes{.device = 1 << 20, .disk = 2 << 20};
  const auto of = [&bytes](Tier tier) { return bytes[tier]; };
  EXPECT_EQ(format_by_tier(of), "1.00 MiB on the device, 0 B on the host, 2.00 MiB on disk");
  EXPECT_EQ(format_by_tier(of, " and "), "1.00 MiB on the device, 0 B on the host and 2.00 MiB on disk");
}

}  // namespace
}  // namespace zero
