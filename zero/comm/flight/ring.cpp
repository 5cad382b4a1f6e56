#include "zero/comm/flight/ring.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <time.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr std::uint64_t kRingMagic = 0x33'54'48'47'49'4c'46'5a;  // "ZFLIGHT3"
constexpr std::int64_t kLatest = std::int64_t{1} << 62;
constexpr std::int64_t kNoStep = -1;
using Text = std::array<char, 64>;
using GroupText = std::array<char, kFlightGroupText + 1>;
constexpr std::uint32_t kGroupShift = 16;  // the group's number is in the upper half of an entry's operation

std::int64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

template <std::size_t n>
void store(std::array<char, n>& to, std::string_view from) {
  std::copy_n(from.data(), std::min(from.size(), n - 1), to.data());
}

template <std::size_t n>
std::string load(const std::array<char, n>& from) {
  const std::array<char, n> copy = from;
  return {copy.data(), ::strnlen(copy.data(), copy.size())};
}

[[noreturn]] void refuse(std::string_view reason) {
  throw IoError("flight ring", "read", 0, reason);
}

// Returns nothing for a time that no clock can give.
std::optional<std::int64_t> time_of(std::int64_t monotonic, std::int64_t offset) {
  std::int64_t time = 0;
  if (__builtin_add_overflow(monotonic, offset, &time) || time <= 0 || time > kLatest) return std::nullopt;
  return time;
}

}  // namespace

// Only `magic`, `begun`, `written_by_rank`, `step`, `lost` and the groups change after construction.
struct alignas(64) FlightRing::Header {
  std::atomic<std::uint64_t> magic;  // written last
  std::uint64_t capacity;
  std::int32_t rank, world, restart;
  std::int64_t process;
  std::int64_t started_ns;  // since 1970
  std::int64_t offset_ns;   // difference of time since 1970 and the entries' clock
  Text run, host;
  std::atomic<std::uint64_t> begun;  // newest complete entry
  std::atomic<std::uint32_t> written_by_rank;
  std::atomic<std::int32_t> lost;  // 0: nobody; r + 1: rank r; -(r + 1): rank r, which left
  std::atomic<std::int64_t> step;
  std::atomic<std::uint32_t> num_groups;  // stored after the group's text
  std::array<GroupText, kMostFlightGroups> groups;
};

struct alignas(64) FlightRing::Entry {
  std::atomic<std::uint64_t> front;  // the entry's number, stored before its other fields
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::uint64_t> collective;
  std::atomic<std::int64_t> began_ns, ended_ns;
  std::atomic<std::int32_t> unit, peer;
  std::atomic<std::uint32_t> operation, failed;
  std::atomic<std::uint64_t> back;  // the entry's number again, stored after its other fields
};

std::size_t FlightRing::bytes(std::size_t capacity) {
  return sizeof(Header) + capacity * sizeof(Entry);
}

FlightRing::FlightRing(std::span<std::byte> memory, const FlightIdentity& identity)
    : memory_(memory), header_(reinterpret_cast<Header*>(memory.data())) {
  static_assert(sizeof(Header) == 3200 && sizeof(Entry) == 64);
  ZERO_CHECK(memory.size() >= bytes(1) && reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(Header) == 0,
             "{} bytes hold no flight ring", memory.size());
  entries_ = reinterpret_cast<Entry*>(memory.data() + sizeof(Header));
  capacity_ = std::min((memory.size() - sizeof(Header)) / sizeof(Entry), kMostFlightCapacity);
  header_->capacity = capacity_;
  header_->rank = identity.rank;
  header_->world = identity.world;
  header_->restart = identity.restart;
  header_->process = identity.process;
  header_->started_ns = now_ns(CLOCK_REALTIME);
  header_->offset_ns = header_->started_ns - now_ns(CLOCK_MONOTONIC);
  store(header_->run, identity.run);
  store(header_->host, identity.host);
  header_->step.store(kNoStep, std::memory_order_relaxed);
  header_->magic.store(kRingMagic, std::memory_order_release);
}

FlightRing::Entry& FlightRing::slot(std::uint64_t number) const {
  return entries_[number % capacity_];
}

// Stores that a reader must see in this order have release order, which costs nothing on x86.
int FlightRing::add_group(std::string_view text) {
  ZERO_CHECK(!text.empty(), "a group without a name");
  const std::uint32_t group = header_->num_groups.load(std::memory_order_relaxed);
  if (group == kMostFlightGroups) return -1;
  store(header_->groups[group], text);
  header_->num_groups.store(group + 1, std::memory_order_release);
  return static_cast<int>(group) + 1;
}

std::uint64_t FlightRing::begin(const FlightCall& call, int group) {
  constexpr auto kAfter = std::memory_order_release;
  const std::uint64_t number = ++begun_;
  Entry& entry = slot(number);
  entry.front.store(number, std::memory_order_relaxed);
  entry.bytes.store(call.bytes, kAfter);
  entry.collective.store(is_message(call.operation) ? 0 : ++collectives_.at(static_cast<std::size_t>(group)), kAfter);
  entry.began_ns.store(now_ns(CLOCK_MONOTONIC), kAfter);
  entry.ended_ns.store(0, kAfter);
  entry.unit.store(call.unit, kAfter);
  entry.peer.store(call.peer, kAfter);
  entry.operation.store(static_cast<std::uint32_t>(call.operation) | static_cast<std::uint32_t>(group) << kGroupShift,
                        kAfter);
  entry.failed.store(0, kAfter);
  entry.back.store(number, kAfter);
  header_->begun.store(number, kAfter);
  return number;
}

void FlightRing::end(std::uint64_t number, bool failed) {
  Entry& entry = slot(number);
  if (entry.front.load(std::memory_order_relaxed) != number) return;
  if (failed) entry.failed.store(1, std::memory_order_relaxed);
  entry.ended_ns.store(now_ns(CLOCK_MONOTONIC), std::memory_order_release);
}

void FlightRing::note_step(std::int64_t steps) {
  ZERO_CHECK(steps >= 0 && steps <= kLatest, "{} steps", steps);
  header_->step.store(steps, std::memory_order_release);
}

void FlightRing::note_lost(const FlightLoss& lost) {
  ZERO_CHECK(lost.rank >= 0 && lost.rank < header_->world, "rank {} of {}", lost.rank, header_->world);
  std::int32_t nobody = 0;
  header_->lost.compare_exchange_strong(nobody, lost.left ? -(lost.rank + 1) : lost.rank + 1);
}

void FlightRing::mark_written() {
  header_->written_by_rank.store(1, std::memory_order_release);
}

std::optional<FlightRecord> read_ring(std::span<const std::byte> memory) {
  using Header = FlightRing::Header;
  using Entry = FlightRing::Entry;
  constexpr auto kBefore = std::memory_order_acquire;
  if (memory.size() < FlightRing::bytes(1) || reinterpret_cast<std::uintptr_t>(memory.data()) % alignof(Header) != 0)
    refuse(fmt::format("{} bytes hold none", memory.size()));
  const Header& header = *reinterpret_cast<const Header*>(memory.data());
  const std::uint64_t magic = header.magic.load(kBefore);
  if (magic == 0) return std::nullopt;
  if (magic != kRingMagic) refuse("not of this version, or damaged");

  // Each field is read once, so the values that are checked are the values that are used.
  const std::uint64_t capacity = header.capacity, begun = header.begun.load(kBefore);
  const std::int64_t offset = header.offset_ns, step = header.step.load(kBefore);
  const std::uint32_t num_groups = header.num_groups.load(kBefore);
  const std::int64_t lost = header.lost.load(kBefore);
  FlightRecord record{.identity = {.rank = header.rank,
                                   .world = header.world,
                                   .run = load(header.run),
                                   .restart = header.restart,
                                   .host = load(header.host),
                                   .process = header.process},
                      .started_ns = header.started_ns,
                      .written_ns = now_ns(CLOCK_REALTIME),
                      .written_by_rank = header.written_by_rank.load(kBefore) != 0};
  if (step != kNoStep) record.step = step;
  if (lost != 0) record.lost = {.rank = static_cast<int>(std::abs(lost) - 1), .left = lost < 0};
  const FlightIdentity& who = record.identity;
  if (who.world < 1 || who.world > kMostFlightRanks || who.rank < 0 || who.rank >= who.world || who.restart < 0 ||
      who.process < 0 || who.process > kLatest || record.started_ns < 0 || record.started_ns > kLatest ||
      step < kNoStep || step > kLatest || begun > kLatest || num_groups > kMostFlightGroups || capacity < 1 ||
      std::abs(lost) > who.world ||
      capacity > std::min((memory.size() - sizeof(Header)) / sizeof(Entry), kMostFlightCapacity)) {
    refuse("damaged: its head makes no sense");
  }

  for (std::uint32_t group = 0; group < num_groups; ++group) {
    record.groups.push_back(load(header.groups[group]));
    if (record.groups.back().empty()) refuse("damaged: it has a group without a name");
  }

  const Entry* entries = reinterpret_cast<const Entry*>(memory.data() + sizeof(Header));
  const auto read_entry = [&](std::uint64_t number) -> std::optional<FlightEntry> {
    const Entry& from = entries[number % capacity];
    if (from.back.load(kBefore) != number) return std::nullopt;
    FlightEntry entry{.number = number, .collective = from.collective.load(kBefore)};
    const std::uint32_t operation = from.operation.load(kBefore);
    entry.group = static_cast<int>(operation >> kGroupShift);
    entry.call = {.operation = static_cast<FlightOperation>(operation & ((1U << kGroupShift) - 1)),
                  .unit = from.unit.load(kBefore),
                  .bytes = from.bytes.load(kBefore),
                  .peer = from.peer.load(kBefore)};
    const auto began = time_of(from.began_ns.load(kBefore), offset);
    const std::int64_t ended = from.ended_ns.load(kBefore);
    const auto ended_or_zero = ended == 0 ? std::optional<std::int64_t>(0) : time_of(ended, offset);
    entry.failed = from.failed.load(kBefore) != 0;
    if (from.front.load(std::memory_order_relaxed) != number) return std::nullopt;
    const bool sense = began && ended_or_zero && name_of(entry.call.operation) != "unknown" && entry.call.unit >= -1 &&
                       entry.call.peer >= -1 && entry.call.peer < who.world && entry.call.bytes <= kLatest &&
                       entry.collective <= number && entry.group <= static_cast<int>(num_groups);
    if (!sense) return std::nullopt;
    entry.began_ns = *began;
    entry.ended_ns = *ended_or_zero;
    return entry;
  };
  std::array<std::uint64_t, kMostFlightGroups + 1> collectives{};
  for (std::uint64_t number = begun > capacity ? begun - capacity + 1 : 1; number <= begun; ++number) {
    const auto entry = read_entry(number);
    std::uint64_t& collective = collectives[entry ? static_cast<std::size_t>(entry->group) : 0];
    if (entry && (is_message(entry->call.operation) ? entry->collective == 0 : entry->collective > collective)) {
      collective = std::max(collective, entry->collective);
      record.entries.push_back(*entry);
    } else {
      ++record.num_unreadable;
    }
  }
  return record;
}

}  // namespace zero
