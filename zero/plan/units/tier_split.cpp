#include "zero/plan/units/tier_split.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

// Tolerates rounding: 0.1 + 0.2 + 0.7 counts as 1.
constexpr double kFractionSlack = 1e-9;

void check(TierFractions fractions, std::string_view key) {
  double off_device = 0;
  bool valid = true;
  std::string text;
  for (const Tier tier : kLowerTiers) {
    off_device += fractions[tier];
    valid = valid && fractions[tier] >= 0;
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name_of(tier), fractions[tier]);
  }
  if (valid && off_device <= 1 + kFractionSlack) return;
  throw ConfigError(key, "{" + text + "}", "each fraction must be 0 or more, and their sum 1 or less",
                    "use for example {host = 0.6, disk = 0.4}; the rest is on the device");
}

// Gives each range in turn its part of a fraction, including the remainder of the ranges before it.
class Portion {
 public:
  explicit Portion(double fraction)
      : fraction_(fraction > 1 - kFractionSlack ? 1.0
                  : fraction < kFractionSlack   ? 0.0
                                                : fraction) {}

  // Returns the elements for the next range. `least`: the part of another portion that this portion includes.
  std::int64_t of(std::int64_t numel, std::int64_t least = 0) {
    total_ += numel;
    const auto wanted = static_cast<std::int64_t>(std::floor(fraction_ * static_cast<double>(total_))) - given_;
    const std::int64_t blocks =
        fraction_ == 1.0 || wanted >= numel ? numel : std::max<std::int64_t>(wanted, 0) / kBlockNumel * kBlockNumel;
    const std::int64_t part = std::max(blocks, least);
    given_ += part;
    return part;
  }

 private:
  double fraction_;
  std::int64_t total_ = 0;
  std::int64_t given_ = 0;
};

}  // namespace

std::vector<TierSplit> split_over_tiers(std::span<const std::int64_t> numels, TierFractions fractions,
                                        std::string_view key) {
  check(fractions, key);
  // For each tier but the last, the portion on it and on all faster tiers.
  std::vector<Portion> portions;
  for (const Tier tier : kAllTiers) {
    if (tier == kLastTier) break;
    double portion = 1;
    for (const Tier slower : kLowerTiers) {
      if (slower > tier) portion -= fractions[slower];
    }
    portions.emplace_back(portion);
  }
  std::vector<TierSplit> splits;
  for (const std::int64_t numel : numels) {
    TierSplit& split = splits.emplace_back();
    std::int64_t faster = 0;
    for (const Tier tier : kAllTiers) {
      const std::int64_t end = tier == kLastTier ? numel : portions[index_of(tier)].of(numel, faster);
      split[tier] = end - faster;
      faster = end;
    }
  }
  return splits;
}

std::int64_t tier_bytes(const TierSplit& split, Tier tier, std::int64_t element_bytes) {
  const std::int64_t bytes = split.numel(tier) * element_bytes;
  if (is_memory(tier)) return bytes;
  return (bytes + kDiskPageBytes - 1) / kDiskPageBytes * kDiskPageBytes;
}

}  // namespace zero
