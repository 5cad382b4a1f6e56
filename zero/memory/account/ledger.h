// Ledger: the account of every byte that zero.cpp holds, by tier and tag.
//
//   Ledger ledger;
//   Buffer shard(allocate_host(bytes), ledger, Tier::kDevice, MemoryTag::kParameter);
//   ledger.held(Tier::kDevice, MemoryTag::kParameter);   // bytes
//
// Every byte is charged to one tag in one tier when it is allocated, and credited when it is released. Tests compare
// these counters with the papers' formulas (law 1).
//
// Local, thread-safe: sums and peaks are exact for any interleaving of charges. A MemoryCount taken during charges
// mixes moments. Throws InternalError if a credit exceeds the held bytes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "zero/base/numbers/tier.h"

namespace zero {

// kActivation: activations that a forward pass offloaded for its backward pass (activation_offload.h). kSecondary:
// secondary parts that are kept within a step (zero/plan/units/secondary.h).
enum class MemoryTag : std::uint8_t {
  kParameter,
  kGradient,
  kMaster,
  kMoment,
  kGathered,
  kStaging,
  kActivation,
  kSecondary
};
constexpr int kNumMemoryTags = 8;
constexpr std::array<MemoryTag, kNumMemoryTags> kAllMemoryTags{
    MemoryTag::kParameter, MemoryTag::kGradient, MemoryTag::kMaster,     MemoryTag::kMoment,
    MemoryTag::kGathered,  MemoryTag::kStaging,  MemoryTag::kActivation, MemoryTag::kSecondary};

std::string_view name_of(MemoryTag tag);  // "parameter", "gradient", ... as in report.json

// A snapshot of bytes by tag.
struct MemoryCount {
  std::array<std::int64_t, kNumMemoryTags> bytes{};
  std::int64_t& operator[](MemoryTag tag) { return bytes[static_cast<std::size_t>(tag)]; }
  std::int64_t operator[](MemoryTag tag) const { return bytes[static_cast<std::size_t>(tag)]; }
  std::int64_t total() const;
  // Returns the total without gathered, staging, activation and secondary: the bytes of the papers' formulas.
  std::int64_t state() const;
  MemoryCount& operator+=(const MemoryCount& more) {
    for (std::size_t tag = 0; tag < bytes.size(); ++tag) bytes[tag] += more.bytes[tag];
    return *this;
  }
  bool operator==(const MemoryCount&) const = default;
};

class Ledger {
 public:
  void charge(Tier tier, MemoryTag tag, std::int64_t bytes);
  void credit(Tier tier, MemoryTag tag, std::int64_t bytes);

  std::int64_t held(Tier tier, MemoryTag tag) const;
  MemoryCount held(Tier tier) const;
  MemoryCount peak(Tier tier) const;         // maximum of each tag
  std::int64_t peak_total(Tier tier) const;  // maximum of their sum
  // Restarts peaks from the held bytes. For tests; not during charges.
  void reset_peak();

 private:
  struct Counter {
    std::atomic<std::int64_t> now{0};
    std::atomic<std::int64_t> peak{0};
  };
  Counter& at(Tier tier, MemoryTag tag) {
    return counters_[static_cast<std::size_t>(tier)][static_cast<std::size_t>(tag)];
  }
  const Counter& at(Tier tier, MemoryTag tag) const {
    return counters_[static_cast<std::size_t>(tier)][static_cast<std::size_t>(tag)];
  }

  std::array<std::array<Counter, kNumMemoryTags>, kNumTiers> counters_;
  std::array<Counter, kNumTiers> totals_;
};

}  // namespace zero
