#include "zero/memory/account/ledger.h"

#include "zero/base/error/check.h"

namespace zero {
namespace {

void raise_peak(std::atomic<std::int64_t>& peak, std::int64_t value) {
  std::int64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value && !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

std::string_view name_of(MemoryTag tag) {
  switch (tag) {
    case MemoryTag::kParameter:
      return "parameter";
    case MemoryTag::kGradient:
      return "gradient";
    case MemoryTag::kMaster:
      return "master";
    case MemoryTag::kMoment:
      return "moment";
    case MemoryTag::kGathered:
      return "gathered";
    case MemoryTag::kStaging:
      return "staging";
    case MemoryTag::kActivation:
      return "activation";
    case MemoryTag::kSecondary:
      return "secondary";
  }
  ZERO_CHECK(false, "memory tag {}", static_cast<int>(tag));
}

std::int64_t MemoryCount::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t each : bytes) sum += each;
  return sum;
}

std::int64_t MemoryCount::state() const {
  std::int64_t beside = 0;
  for (const MemoryTag tag : {MemoryTag::kGathered, MemoryTag::kStaging, MemoryTag::kActivation, MemoryTag::kSecondary})
    beside += (*this)[tag];
  return total() - beside;
}

// Relaxed order is enough, because counters guard nothing else. Each addition sees the exact sum of those before it in
// its counter's modification order, so the highest value seen is the true peak.
void Ledger::charge(Tier tier, MemoryTag tag, std::int64_t bytes) {
  ZERO_CHECK(bytes >= 0, "a charge of {} bytes to {} {}", bytes, name_of(tier), name_of(tag));
  for (Counter* counter : {&at(tier, tag), &totals_[static_cast<std::size_t>(tier)]}) {
    raise_peak(counter->peak, counter->now.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  }
}

void Ledger::credit(Tier tier, MemoryTag tag, std::int64_t bytes) {
  ZERO_CHECK(bytes >= 0, "a credit of {} bytes to {} {}", bytes, name_of(tier), name_of(tag));
  const std::int64_t before = at(tier, tag).now.fetch_sub(bytes, std::memory_order_relaxed);
  ZERO_CHECK(before >= bytes, "{} bytes of {} {} given back, {} held", bytes, name_of(tier), name_of(tag), before);
  totals_[static_cast<std::size_t>(tier)].now.fetch_sub(bytes, std::memory_order_relaxed);
}

std::int64_t Ledger::held(Tier tier, MemoryTag tag) const {
  return at(tier, tag).now.load(std::memory_order_relaxed);
}

MemoryCount Ledger::held(Tier tier) const {
  MemoryCount count;
  for (const MemoryTag tag : kAllMemoryTags) count[tag] = held(tier, tag);
  return count;
}

MemoryCount Ledger::peak(Tier tier) const {
  MemoryCount count;
  for (const MemoryTag tag : kAllMemoryTags) count[tag] = at(tier, tag).peak.load(std::memory_order_relaxed);
  return count;
}

std::int64_t Ledger::peak_total(Tier tier) const {
  return totals_[static_cast<std::size_t>(tier)].peak.load(std::memory_order_relaxed);
}

void Ledger::reset_peak() {
  const auto reset = [](Counter& counter) { counter.peak.store(counter.now.load()); };
  for (auto& tier : counters_) {
    for (Counter& counter : tier) reset(counter);
  }
  for (Counter& counter : totals_) reset(counter);
}

}  // namespace zero
