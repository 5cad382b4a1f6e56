// Tier: a kind of memory: device, host or disk, from the fastest to the slowest. Without a GPU, device and host are
// both main memory with separate budgets.
//
//   for (const Tier tier : kLowerTiers) text += facts_of(tier).phrase;     // "on the host", "on disk"
//   PerTier<std::int64_t> bytes{.host = 4096};
//   bytes[Tier::kHost]                                                     // 4096
//
// This file is the table of tiers: fractions, splits, budgets, transfers, keys and reports have one value for each row.
// docs/extend/memory_tier.md lists what else a new tier needs. Values; Local.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace zero {

enum class Tier : std::uint8_t { kDevice, kHost, kDisk };

struct TierFacts {
  Tier tier = Tier::kDevice;
  std::string_view name;    // in keys and options: {host = 0.5}
  std::string_view phrase;  // in sentences
  std::string_view budget;  // key of its budget
  // Memory has addresses, and an update works there in place. Other tiers transfer whole pages on request.
  bool is_memory = true;
  // Among placements with equal step times, the one with the least sum of bytes x cost wins.
  int cost = 0;
  std::string_view held_key;  // in report.json: bytes of each rank, by tag
  std::string_view peak_key;  // in report.json: most bytes of each rank, by tag; empty: not reported
};
inline constexpr std::array kTierTable{
    TierFacts{Tier::kDevice, "device", "on the device", "zero.device_memory", /*is_memory=*/true, 0, "memory_bytes",
              "peak_memory_bytes"},
    TierFacts{Tier::kHost, "host", "on the host", "zero.host_memory", /*is_memory=*/true, 1, "host_memory_bytes",
              "peak_host_memory_bytes"},
    TierFacts{Tier::kDisk, "disk", "on disk", "zero.disk_memory", /*is_memory=*/false, 2, "disk_bytes", ""}};

constexpr int kNumTiers = static_cast<int>(kTierTable.size());
constexpr std::array<Tier, kNumTiers> kAllTiers = [] {
  std::array<Tier, kNumTiers> tiers{};
  for (std::size_t i = 0; i < tiers.size(); ++i) tiers[i] = kTierTable[i].tier;
  return tiers;
}();
// The tiers below the device.
constexpr int kNumLowerTiers = kNumTiers - 1;
constexpr std::array<Tier, kNumLowerTiers> kLowerTiers = [] {
  std::array<Tier, kNumLowerTiers> tiers{};
  for (std::size_t i = 0; i < tiers.size(); ++i) tiers[i] = kAllTiers[i + 1];
  return tiers;
}();
// The tiers that are no memory: they are reached by requests.
constexpr int kNumRequestTiers = [] {
  int count = 0;
  for (const TierFacts& facts : kTierTable) count += facts.is_memory ? 0 : 1;
  return count;
}();
constexpr std::array<Tier, kNumRequestTiers> kRequestTiers = [] {
  std::array<Tier, kNumRequestTiers> tiers{};
  std::size_t count = 0;
  for (const TierFacts& facts : kTierTable)
    if (!facts.is_memory) tiers[count++] = facts.tier;
  return tiers;
}();
// The slowest tier, to which all states may go.
constexpr Tier kLastTier = kAllTiers.back();

constexpr std::size_t index_of(Tier tier) {
  return static_cast<std::size_t>(tier);
}
constexpr const TierFacts& facts_of(Tier tier) {
  return kTierTable[index_of(tier)];
}
constexpr std::string_view name_of(Tier tier) {
  return facts_of(tier).name;
}
// Return the tier with this name, or with this key of its budget; null if there is none.
constexpr const TierFacts* find_tier(std::string_view name) {
  for (const TierFacts& facts : kTierTable)
    if (facts.name == name) return &facts;
  return nullptr;
}
constexpr const TierFacts* find_tier_of_budget(std::string_view key) {
  for (const TierFacts& facts : kTierTable)
    if (facts.budget == key) return &facts;
  return nullptr;
}
constexpr bool is_memory(Tier tier) {
  return facts_of(tier).is_memory;
}

// One value for each tier.
template <typename T>
struct PerTier {
  T device{}, host{}, disk{};

  constexpr T& operator[](Tier tier) { return this->*kMembers[index_of(tier)]; }
  constexpr const T& operator[](Tier tier) const { return this->*kMembers[index_of(tier)]; }
  // Returns the sum of the values.
  constexpr T total() const { return before(kLastTier) + (*this)[kLastTier]; }
  // Returns the sum of the values of all faster tiers.
  constexpr T before(Tier tier) const {
    T sum{};
    for (const Tier faster : kAllTiers) {
      if (faster == tier) break;
      sum += (*this)[faster];
    }
    return sum;
  }
  constexpr PerTier& operator+=(const PerTier& more) {
    for (const Tier tier : kAllTiers) (*this)[tier] += more[tier];
    return *this;
  }
  bool operator==(const PerTier&) const = default;

  static constexpr std::array<T PerTier::*, kNumTiers> kMembers{&PerTier::device, &PerTier::host, &PerTier::disk};
};

// One value for each tier below the device.
template <typename T>
struct PerLowerTier {
  T host{}, disk{};

  constexpr T& operator[](Tier tier) { return this->*kMembers[index_of(tier) - 1]; }
  constexpr const T& operator[](Tier tier) const { return this->*kMembers[index_of(tier) - 1]; }
  // Returns whether all values are 0, so everything is on the device.
  constexpr bool on_device() const { return *this == PerLowerTier{}; }
  bool operator==(const PerLowerTier&) const = default;

  static constexpr std::array<T PerLowerTier::*, kNumLowerTiers> kMembers{&PerLowerTier::host, &PerLowerTier::disk};
};

}  // namespace zero
