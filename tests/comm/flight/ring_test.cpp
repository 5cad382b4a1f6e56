#include "zero/comm/flight/ring.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/process/pages.h"
#include "zero/comm/flight/file.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

const FlightIdentity kIdentity{.rank = 2, .world = 4, .run = "run-7", .restart = 1, .host = "node-a", .process = 4321};

FlightCall gather(int unit, std::uint64_t bytes = 64) {
  return {.operation = FlightOperation::kAllGather, .unit = unit, .bytes = bytes};
}

class Ring : public ::testing::Test {
 protected:
  explicit Ring(std::size_t capacity = 8) : memory_(map_private(FlightRing::bytes(capacity))) {}
  FlightRecord read() const { return read_ring(memory_.bytes()).value(); }
  Allocation memory_;
};

TEST_F(Ring, HoldsWhoAndWhat) {
  FlightRing ring(memory_.bytes(), kIdentity);
  const std::uint64_t first = ring.begin(gather(3, 4096));
  ring.end(first);
  const std::uint64_t second = ring.begin({.operation = FlightOperation::kSend, .bytes = 7, .peer = 1});
  ring.end(second, /*failed=*/true);
  ring.begin({.operation = FlightOperation::kBroadcast, .bytes = 9, .peer = 3});
  const FlightRecord record = read();
  EXPECT_EQ(record.identity.rank, 2);
  EXPECT_EQ(record.identity.world, 4);
  EXPECT_EQ(record.identity.run, "run-7");
  EXPECT_EQ(record.identity.restart, 1);
  EXPECT_EQ(record.identity.host, "node-a");
  EXPECT_EQ(record.identity.process, 4321);
  EXPECT_FALSE(record.written_by_rank);
  ASSERT_EQ(record.entries.size(), 3u);
  EXPECT_EQ(record.entries[0].call, gather(3, 4096));
  EXPECT_EQ(record.entries[0].collective, 1u);
  EXPECT_FALSE(record.entries[0].failed);
  EXPECT_GE(record.entries[0].ended_ns, record.entries[0].began_ns);
  EXPECT_EQ(record.entries[1].collective, 0u) << "a message is no collective";
  EXPECT_EQ(record.entries[1].call.peer, 1);
  EXPECT_TRUE(record.entries[1].failed);
  EXPECT_EQ(record.entries[2].collective, 2u);
  EXPECT_EQ(record.entries[2].call.peer, 3);
  EXPECT_EQ(record.entries[2].ended_ns, 0);
  EXPECT_LE(record.started_ns, record.entries[0].began_ns);
  EXPECT_LE(record.entries[2].began_ns, record.written_ns);
  ring.mark_written();
  EXPECT_TRUE(read().written_by_rank);
}

TEST_F(Ring, KeepsTheNewest) {
  FlightRing ring(memory_.bytes(), kIdentity);
  for (int unit = 0; unit < 100; ++unit) ring.end(ring.begin(gather(unit)));
  const FlightRecord record = read();
  ASSERT_EQ(record.entries.size(), 8u);
  EXPECT_EQ(record.num_unreadable, 0u);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(record.entries[i].number, 93u + i);
    EXPECT_EQ(record.entries[i].collective, 93u + i);
    EXPECT_EQ(record.entries[i].call.unit, 92 + i);
  }
}

// The ring has already overwritten the entry.
TEST_F(Ring, LateEndChangesNothing) {
  FlightRing ring(memory_.bytes(), kIdentity);
  const std::uint64_t first = ring.begin(gather(0));
  for (int unit = 1; unit <= 8; ++unit) ring.begin(gather(unit));
  ring.end(first, /*failed=*/true);
  for (const FlightEntry& entry : read().entries) {
    EXPECT_EQ(entry.ended_ns, 0) << entry.number;
    EXPECT_FALSE(entry.failed) << entry.number;
  }
}

TEST_F(Ring, LastNotedStepIsRead) {
  FlightRing ring(memory_.bytes(), kIdentity);
  EXPECT_FALSE(read().step);
  ring.note_step(0);
  EXPECT_EQ(read().step, 0);
  ring.note_step(41);
  ring.note_step(40);  // after a return to a checkpoint
  EXPECT_EQ(read().step, 40);
  EXPECT_THROW(ring.note_step(-1), InternalError);
}

TEST_F(Ring, FirstLostRankIsRead) {
  FlightRing ring(memory_.bytes(), kIdentity);
  EXPECT_FALSE(read().lost);
  ring.note_lost({.rank = kIdentity.world - 1, .left = true});
  ring.note_lost({.rank = 0});
  EXPECT_EQ(read().lost, (FlightLoss{.rank = kIdentity.world - 1, .left = true}));
  EXPECT_THROW(ring.note_lost({.rank = kIdentity.world}), InternalError);
}

TEST_F(Ring, NothingWasMadeInZeroBytes) {
  EXPECT_FALSE(read_ring(memory_.bytes()));
}

TEST_F(Ring, TornEntryIsCountedNotRead) {
  FlightRing ring(memory_.bytes(), kIdentity);
  for (int unit = 0; unit < 5; ++unit) ring.begin(gather(unit));
  // The bytes that a killed rank leaves after it has written an entry's first number, but not the rest: entry 3 begins
  // like entry 11.
  std::byte* const entry = memory_.data() + FlightRing::bytes(3);
  std::uint64_t front = 0;
  std::memcpy(&front, entry, sizeof(front));
  ASSERT_EQ(front, 3u);
  front = 11;
  std::memcpy(entry, &front, sizeof(front));
  const FlightRecord record = read();
  EXPECT_EQ(record.num_unreadable, 1u);
  ASSERT_EQ(record.entries.size(), 4u);
  EXPECT_TRUE(std::ranges::none_of(record.entries, [](const FlightEntry& e) { return e.number == 3; }));
}

TEST_F(Ring, LongNamesAreCut) {
  FlightIdentity identity = kIdentity;
  identity.run = std::string(200, 'r');
  const FlightRing ring(memory_.bytes(), identity);
  EXPECT_EQ(read().identity.run, std::string(63, 'r'));
}

TEST_F(Ring, RefusesBytesThatAreNoRing) {
  std::ranges::fill(memory_.bytes(), std::byte{0x5a});
  EXPECT_TRUE(says(message_of<IoError>([&] { read_ring(memory_.bytes()); }), "not of this version"));
  EXPECT_TRUE(says(message_of<IoError>([&] { read_ring(memory_.bytes().first(100)); }), "100 bytes hold none"));
}

TEST_F(Ring, MemoryWithoutRoomIsOurBug) {
  EXPECT_THROW(FlightRing(memory_.bytes().first(300), kIdentity), InternalError);
  EXPECT_THROW(FlightRing(memory_.bytes().subspan(8), kIdentity), InternalError);
}

// A reader runs beside the writer. It sees only whole entries, never a mixture of two.
TEST_F(Ring, ConcurrentReaderSeesWholeEntries) {
  FlightRing ring(memory_.bytes(), kIdentity);
  std::atomic<bool> done = false;
  std::jthread writer([&] {
    for (int unit = 0; unit < 200000; ++unit) ring.end(ring.begin(gather(unit, 10 * static_cast<std::uint64_t>(unit))));
    done = true;
  });
  std::size_t seen = 0;
  while (!done) {
    for (const FlightEntry& entry : read().entries) {
      ++seen;
      ASSERT_EQ(entry.call.unit, static_cast<int>(entry.number) - 1);
      ASSERT_EQ(entry.call.bytes, 10 * (entry.number - 1));
      ASSERT_EQ(entry.collective, entry.number);
    }
  }
  writer.join();
  EXPECT_EQ(read().entries.size(), 8u);
}

// Any bytes give an IoError, or a record that can be written to a file.
RC_GTEST_FIXTURE_PROP(Ring, HostileBytesNeverBreakARecord, ()) {
  const Allocation memory = map_private(FlightRing::bytes(8));
  FlightRing ring(memory.bytes(), kIdentity);
  for (int unit = 0; unit < 12; ++unit) ring.end(ring.begin(gather(unit)));
  const auto num_changes = *rc::gen::inRange(1, 40);
  for (int i = 0; i < num_changes; ++i) {
    // Also whole words, because a counter that is far too high does more harm than one bit.
    const auto at = *rc::gen::inRange<std::size_t>(0, FlightRing::bytes(8) / 8) * 8;
    const auto word = *rc::gen::oneOf(rc::gen::arbitrary<std::uint64_t>(), rc::gen::just(~std::uint64_t{0}),
                                      rc::gen::just(std::uint64_t{1} << 62), rc::gen::inRange<std::uint64_t>(0, 20));
    if (at != 0 || *rc::gen::inRange(0, 8) == 0) std::memcpy(memory.data() + at, &word, sizeof(word));
  }
  try {
    const auto record = read_ring(memory.bytes());
    if (!record) return;
    RC_ASSERT(record->entries.size() + record->num_unreadable <= kMostFlightCapacity);
    const FlightRecord again = parse_flight(flight_json(*record), "here");
    RC_ASSERT(again.entries.size() == record->entries.size());
    RC_ASSERT(again.identity.world == record->identity.world);
  } catch (const IoError& error) {
    RC_ASSERT(std::string(error.what()).starts_with("flight ring"));
  }
}

TEST_F(Ring, GroupsCountTheirCollectivesByThemselves) {
  FlightRing ring(memory_.bytes(), kIdentity);
  EXPECT_EQ(ring.add_group("copy 1 (ranks 2, 3)"), 1);
  EXPECT_EQ(ring.add_group(std::string(500, 'x')), 2);
  ring.end(ring.begin(gather(0)));
  ring.end(ring.begin(gather(1), 1));
  ring.end(ring.begin(gather(2), 2));
  ring.end(ring.begin(gather(3), 1));
  ring.end(ring.begin(gather(4)));
  const FlightRecord record = read();
  ASSERT_EQ(record.groups, (std::vector<std::string>{"copy 1 (ranks 2, 3)", std::string(95, 'x')}));
  ASSERT_EQ(record.entries.size(), 5U);
  const std::vector<int> groups{0, 1, 2, 1, 0}, collectives{1, 1, 1, 2, 2};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(record.entries[i].group, groups[i]) << i;
    EXPECT_EQ(record.entries[i].collective, static_cast<std::uint64_t>(collectives[i])) << i;
    EXPECT_EQ(record.entries[i].call, gather(static_cast<int>(i))) << i;
  }
  EXPECT_EQ(describe(record.entries[3], record), "all_gather #2 (unit 3, 64 bytes) of group copy 1 (ranks 2, 3)");
  EXPECT_EQ(describe(record.entries[4], record), "all_gather #2 (unit 4, 64 bytes)");
}

TEST_F(Ring, HasRoomForLimitedGroups) {
  FlightRing ring(memory_.bytes(), kIdentity);
  for (int group = 1; group <= kMostFlightGroups; ++group) EXPECT_EQ(ring.add_group("pair"), group);
  EXPECT_EQ(ring.add_group("pair"), -1);
  EXPECT_THROW(ring.add_group(""), InternalError);
}

TEST(FlightEntryText, SaysWhatRanksSayOfCollectives) {
  EXPECT_EQ(describe(FlightEntry{.number = 20, .collective = 17, .call = gather(3, 4096)}),
            "all_gather #17 (unit 3, 4096 bytes)");
  EXPECT_EQ(describe(FlightEntry{.collective = 2, .call = {.operation = FlightOperation::kBarrier}}), "barrier #2");
  EXPECT_EQ(
      describe(FlightEntry{.collective = 5, .call = {.operation = FlightOperation::kBroadcast, .bytes = 8, .peer = 1}}),
      "broadcast #5 (from rank 1, 8 bytes)");
  EXPECT_EQ(describe(FlightEntry{.call = {.operation = FlightOperation::kSend, .bytes = 8, .peer = 1}}),
            "send to rank 1 (8 bytes)");
  EXPECT_EQ(describe(FlightEntry{.call = {.operation = FlightOperation::kReceive, .bytes = 8, .peer = 0}}),
            "receive from rank 0 (8 bytes)");
}

TEST(FlightEntryText, NamesFindTheirOperations) {
  for (std::uint32_t i = 1; i <= 7; ++i) {
    const auto operation = static_cast<FlightOperation>(i);
    EXPECT_EQ(find_flight_operation(name_of(operation)), operation);
  }
  EXPECT_FALSE(find_flight_operation("unknown"));
  EXPECT_FALSE(find_flight_operation("all_gathers"));
}

}  // namespace
}  // namespace zero
