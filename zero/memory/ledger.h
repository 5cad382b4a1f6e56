// Ledger: the account of every byte that zero.cpp holds, by tier and tag.
//
// Every byte that zero.cpp holds is charged to one tag in one tier, at the moment it is allocated, and credited when it
// is released. Law 1 (bytes equal the papers' formulas) is tested on these counters.
//
//   Ledger ledger;
//   Buffer shard(allocate_host(bytes), ledger, Tier::kDevice, MemoryTag::kParameter);
//   ledger.held(Tier::kDevice, MemoryTag::kParameter);   // bytes
//
// Local, thread-safe: sums and peaks are exact however charges interleave; a MemoryCount taken while others charge
// mixes moments. Credits that exceed what is held are a bug of ours (InternalError).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "zero/base/tier.h"

namespace zero {

// kActivation: what a forward pass offloaded for its backward pass (activation_offload.h). kSecondary: parts of gathered
// weights that are kept within a step (zero/plan/secondary.h).
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

// A photograph: bytes by tag, and their total.
struct MemoryCount {
  std::array<std::int64_t, kNumMemoryTags> bytes{};
  std::int64_t& operator[](MemoryTag tag) { return bytes[static_cast<std::size_t>(tag)]; }
  std::int64_t operator[](MemoryTag tag) const { return bytes[static_cast<std::size_t>(tag)]; }
  std::int64_t total() const;
  // Total without gathered, staging, activation and secondary: what the formulas speak of.
  std::int64_t state() const;
  bool operator==(const MemoryCount&) const = default;
};

class Ledger {
 public:
  void charge(Tier tier, MemoryTag tag, std::int64_t bytes);
  void credit(Tier tier, MemoryTag tag, std::int64_t bytes);

  std::int64_t held(Tier tier, MemoryTag tag) const;
  MemoryCount held(Tier tier) const;
  MemoryCount peak(Tier tier) const;         // the highest each tag has been
  std::int64_t peak_total(Tier tier) const;  // the highest their sum has been
  // For tests. Peaks start again from what is held; not while others charge.
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
