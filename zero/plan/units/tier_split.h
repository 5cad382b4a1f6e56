// TierSplit: one state of one unit, split over the tiers: first elements on the device, next on the host, last on disk.
//
//   split_over_tiers({1 << 20, 1 << 20}, {.host = 0.5, .disk = 0.5})
//       -> {device 0, host 524288, disk 524288} twice
//
// Invariants: boundaries are at multiples of kBlockNumel or at the range's end, so the part on disk begins at a page.
// Summed over the units, each tier gets its fraction, up to one block; the device never gets more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zero/base/numbers/tier.h"

namespace zero {

// Granularity of splits in elements: 16 KiB of fp32, 8 KiB of bf16.
constexpr std::int64_t kBlockNumel = 4096;
// A state's part on a tier that is no memory takes whole pages.
constexpr std::int64_t kDiskPageBytes = 4096;

// Fractions of a state off the device. The rest is on the device.
using TierFractions = PerLowerTier<double>;

// Elements on each tier, in the order of the range.
struct TierSplit {
  std::int64_t device = 0, host = 0, disk = 0;

  std::int64_t& operator[](Tier tier) { return this->*kMembers[index_of(tier)]; }
  std::int64_t numel(Tier tier) const { return this->*kMembers[index_of(tier)]; }
  std::int64_t numel() const { return begin(kLastTier) + numel(kLastTier); }
  // Returns the index of the first element on `tier`.
  std::int64_t begin(Tier tier) const {
    std::int64_t first = 0;
    for (std::size_t faster = 0; faster < index_of(tier); ++faster) first += this->*kMembers[faster];
    return first;
  }
  bool on_device() const { return device == numel(); }
  // Returns the elements on tiers of requests, which are read and written in tiles.
  std::int64_t numel_in_tiles() const {
    std::int64_t sum = 0;
    for (const Tier tier : kRequestTiers) sum += numel(tier);
    return sum;
  }
  // Returns the tier of an element. The end of the range counts to the last tier that holds any.
  Tier tier_of(std::int64_t element) const {
    std::int64_t end = 0;
    const std::int64_t all = numel();
    for (const Tier tier : kAllTiers) {
      end += numel(tier);
      if (element < end || end == all) return tier;
    }
    return kLastTier;
  }
  bool operator==(const TierSplit&) const = default;

 private:
  static const std::array<std::int64_t TierSplit::*, kNumTiers> kMembers;
};
inline constexpr std::array<std::int64_t TierSplit::*, kNumTiers> TierSplit::kMembers{
    &TierSplit::device, &TierSplit::host, &TierSplit::disk};

// Returns one split for each range. Throws ConfigError under `key` if fractions are negative or not finite, or if their
// sum exceeds 1.
std::vector<TierSplit> split_over_tiers(std::span<const std::int64_t> numels, TierFractions fractions,
                                        std::string_view key);

// Returns the bytes of a split's part on `tier`; in whole pages if the tier is no memory.
std::int64_t tier_bytes(const TierSplit& split, Tier tier, std::int64_t element_bytes);

}  // namespace zero
