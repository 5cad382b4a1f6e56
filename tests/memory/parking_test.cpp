#include "zero/memory/parking.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error.h"

#include "../message_of.h"
#include "../temporary_folder.h"
#include "failing_calls.h"
#include "filled_pages.h"
#include "scripted_queue.h"

namespace zero {
namespace {

using enum MemoryTag;
constexpr std::size_t kBytes = 3 * DiskTier::kPageBytes + 100;  // ends within a page
constexpr std::int64_t kPages = 4 * DiskTier::kPageBytes;

struct Way {
  const char* name;
  Tier tier;
  double link;  // bytes a second
};
void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

std::vector<std::byte> contents(std::uint64_t seed, std::size_t bytes = kBytes) {
  const Allocation pages = filled_pages((bytes + 7) / 8 * 8, seed);
  return {pages.bytes().begin(), pages.bytes().begin() + static_cast<std::ptrdiff_t>(bytes)};
}

class ParkingOn : public testing::TestWithParam<Way> {
 protected:
  ParkingOptions options() const {
    return {
        .tier = GetParam().tier, .disk = {folder.path()}, .checksums = true, .link_bytes_per_second = GetParam().link};
  }
  std::vector<Parking::Ticket> park(Parking& parking, int count) {
    std::vector<Parking::Ticket> tickets;
    for (int i = 0; i < count; ++i) {
      std::vector<std::byte> block = contents(static_cast<std::uint64_t>(i));
      tickets.push_back(parking.park(block));
      std::fill(block.begin(), block.end(), std::byte{0xee});  // it may be used again at once
    }
    return tickets;
  }
  static testing::AssertionResult brings(Parking& parking, Parking::Ticket ticket, std::uint64_t seed) {
    std::vector<std::byte> into(kBytes);
    parking.bring(ticket, into);
    return into == contents(seed) ? testing::AssertionSuccess()
                                  : testing::AssertionFailure() << "other bytes than were parked as " << ticket;
  }

  TemporaryFolder folder;
  Ledger ledger;
};

TEST_P(ParkingOn, BringsBackTheLastFirst) {
  Parking parking(options(), ledger);
  for (int step = 0; step < 3; ++step) {
    const auto tickets = park(parking, 12);
    EXPECT_EQ(parking.report().bytes, 12 * static_cast<std::int64_t>(kBytes));
    for (std::size_t i = tickets.size(); i-- > 0;) {
      EXPECT_TRUE(brings(parking, tickets[i], i));
      parking.forget(tickets[i]);
    }
  }
  EXPECT_EQ(parking.report().bytes, 0);
  EXPECT_EQ(parking.report().peak_bytes, 12 * static_cast<std::int64_t>(kBytes));
}

TEST_P(ParkingOn, BringsBackInAnyOrderAsOftenAsWanted) {
  Parking parking(options(), ledger);
  const auto tickets = park(parking, 9);
  for (const std::size_t i : {0, 8, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 5, 4, 3, 3, 8, 2, 7, 1})
    EXPECT_TRUE(brings(parking, tickets[i], i));
}

TEST_P(ParkingOn, ForgetsWhatNobodyBrought) {
  Parking parking(options(), ledger);
  const auto dropped = park(parking, 7);
  const MemoryCount host = ledger.held(Tier::kHost), disk = ledger.held(Tier::kDisk);
  for (const Parking::Ticket ticket : dropped) parking.forget(ticket);
  const auto tickets = park(parking, 7);
  EXPECT_EQ(ledger.held(Tier::kHost), host) << "the same memory serves again";
  EXPECT_EQ(ledger.held(Tier::kDisk), disk);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_TRUE(brings(parking, tickets[i], i));
}

TEST_P(ParkingOn, ForgetsFromTheMiddleWhileOthersAreOnTheirWay) {
  Parking parking(options(), ledger);
  const auto tickets = park(parking, 8);
  EXPECT_TRUE(brings(parking, tickets[7], 7));  // 6 and 5 are fetched
  parking.forget(tickets[6]);
  parking.forget(tickets[3]);
  EXPECT_TRUE(brings(parking, tickets[5], 5));
  EXPECT_TRUE(brings(parking, tickets[4], 4));
  EXPECT_TRUE(brings(parking, tickets[2], 2));
}

TEST_P(ParkingOn, MayEndWithThingsUnderWay) {
  Parking parking(options(), ledger);
  const auto tickets = park(parking, 8);
  EXPECT_TRUE(brings(parking, tickets[4], 4));
}

TEST_P(ParkingOn, GrowsNoFurtherAfterTheFirstStep) {
  Parking parking(options(), ledger);
  MemoryCount first;
  for (int step = 0; step < 200; ++step) {
    const auto tickets = park(parking, 6);
    for (std::size_t i = 6; i-- > 0;) {
      std::vector<std::byte> into(kBytes);
      parking.bring(tickets[i], into);
      parking.forget(tickets[i]);
    }
    if (step == 0) first = ledger.peak(Tier::kHost);
  }
  EXPECT_EQ(ledger.peak(Tier::kHost), first);
}

TEST_P(ParkingOn, TakesWhatItIsSaidToNeedAndNoMoreThanItMay) {
  constexpr int kCount = 7;
  ParkingOptions limited = options();
  const ParkingNeed need = parking_need(limited, kCount, static_cast<std::int64_t>(kBytes));
  limited.expected_bytes = limited.most_bytes = GetParam().tier == Tier::kDisk ? need.disk : need.host;
  Parking parking(limited, ledger);
  parking.open();
  const auto tickets = park(parking, kCount);
  const std::string message = message_of<ConfigError>([&] { park(parking, 1); });
  EXPECT_TRUE(says(message, GetParam().tier == Tier::kDisk ? "zero.disk_memory" : "zero.host_memory")) << message;
  EXPECT_EQ(parking.report().bytes, kCount * static_cast<std::int64_t>(kBytes)) << "and nothing is parked";
  for (std::size_t i = kCount; i-- > 0;) {
    EXPECT_TRUE(brings(parking, tickets[i], i));
    parking.forget(tickets[i]);
  }
  park(parking, kCount);
  EXPECT_EQ(ledger.peak_total(Tier::kHost), need.host);
  EXPECT_LE(ledger.peak_total(Tier::kDevice), need.device) << "four blocks; in this order three";
  EXPECT_EQ(ledger.peak_total(Tier::kDisk), need.disk);
}

TEST_P(ParkingOn, CopesWithSizesThatVary) {
  rc::check([&] {
    Ledger own;
    Parking parking(options(), own);
    std::vector<std::pair<Parking::Ticket, std::vector<std::byte>>> parked;
    const auto choices = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 1'000'000));
    std::vector<std::byte> into;
    for (const std::uint64_t choice : choices) {
      const std::size_t which = parked.empty() ? 0 : choice / 4 % parked.size();
      if (choice % 4 < 2 || parked.empty()) {
        std::vector<std::byte> block = contents(choice, 1 + choice % 30'000);
        parked.emplace_back(parking.park(block), block);
      } else if (choice % 4 == 2) {
        into.resize(parked[which].second.size());
        parking.bring(parked[which].first, into);
        RC_ASSERT(into == parked[which].second);
      } else {
        parking.forget(parked[which].first);
        parked.erase(parked.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ParkingOn,
                         testing::Values(Way{"host", Tier::kHost, 0}, Way{"host_over_link", Tier::kHost, 20e9},
                                         Way{"disk", Tier::kDisk, 0}, Way{"disk_over_link", Tier::kDisk, 20e9}),
                         [](const auto& instance) { return std::string(instance.param.name); });

// ---- what is held where

TEST(ParkingOnTheHost, IsInTheLedgerThere) {
  Ledger ledger;
  Parking parking({.tier = Tier::kHost}, ledger);
  parking.park(contents(1));
  parking.park(contents(2));
  EXPECT_EQ(ledger.held(Tier::kHost, kActivation), 2 * static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(ledger.held(Tier::kHost).total(), 2 * static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(ledger.held(Tier::kDevice), MemoryCount{});
  EXPECT_EQ(parking.report().disk_kind, "");
}

TEST(ParkingOnTheHost, LetsGoOfSizesThatNobodyNeeds) {
  Ledger ledger;
  Parking parking({.tier = Tier::kHost}, ledger);
  for (std::size_t bytes = 1000; bytes <= 9000; bytes += 1000) {
    const auto one = parking.park(contents(1, bytes)), two = parking.park(contents(2, bytes));
    parking.forget(one);
    parking.forget(two);
  }
  EXPECT_LE(ledger.peak_total(Tier::kHost), 18000) << "never more than was parked at once";
}

TEST(ParkingOnDisk, HoldsFourBlocksOfMemory) {
  const TemporaryFolder folder;
  Ledger ledger;
  Parking parking({.tier = Tier::kDisk, .disk = {folder.path()}}, ledger);
  std::vector<Parking::Ticket> tickets;
  for (std::uint64_t i = 0; i < 20; ++i) tickets.push_back(parking.park(contents(i)));
  std::vector<std::byte> into(kBytes);
  for (const Parking::Ticket ticket : tickets) parking.bring(ticket, into);
  EXPECT_EQ(ledger.peak_total(Tier::kHost), static_cast<std::int64_t>(Parking::kBlocks) * kPages);
  EXPECT_EQ(ledger.peak(Tier::kHost)[kStaging], ledger.peak_total(Tier::kHost));
  EXPECT_EQ(ledger.held(Tier::kDisk, kActivation), DiskPlaces::kSlabBytes);
  EXPECT_NE(parking.report().disk_kind.find("1 path"), std::string::npos);
}

// ---- what is read when

// A disk of memory that remembers what was asked for.
struct OverMemory {
  TemporaryFolder folder;
  ScriptedDisk disk;
  Ledger ledger;
  Parking parking{{.tier = Tier::kDisk, .disk = {folder.path()}},
                  ledger,
                  {.make_queue = [this](std::span<const int>, int) { return disk.queue(); }}};

  std::vector<Parking::Ticket> park(int count) {
    std::vector<Parking::Ticket> tickets;
    for (int i = 0; i < count; ++i) tickets.push_back(parking.park(contents(static_cast<std::uint64_t>(i))));
    return tickets;
  }
  int num_reads() const {
    return static_cast<int>(std::count_if(disk.asked.begin(), disk.asked.end(), [](const IoRequest& request) {
      return request.operation == IoOperation::kRead;
    }));
  }
  std::int64_t last_read() const {
    const auto found = std::find_if(disk.asked.rbegin(), disk.asked.rend(),
                                    [](const IoRequest& request) { return request.operation == IoOperation::kRead; });
    return found->offset / kPages;
  }
  std::vector<std::byte> bring(Parking::Ticket ticket) {
    std::vector<std::byte> into(kBytes);
    parking.bring(ticket, into);
    return into;
  }
};

TEST(ParkingReadsAhead, TheTwoBeforeTheOneThatIsWanted) {
  OverMemory f;
  const auto tickets = f.park(10);
  EXPECT_EQ(f.num_reads(), 0);
  for (std::size_t i = 10; i-- > 6;) {
    EXPECT_EQ(f.bring(tickets[i]), contents(i));
    // What was written last still lies in memory.
    EXPECT_EQ(f.num_reads(), i == 9 || i == 8 ? 0 : 8 - static_cast<int>(i)) << i;
    f.parking.forget(tickets[i]);
  }
  EXPECT_EQ(f.last_read(), 4);
  for (std::size_t i = 6; i-- > 0;) {
    EXPECT_EQ(f.bring(tickets[i]), contents(i));
    f.parking.forget(tickets[i]);
  }
  EXPECT_EQ(f.num_reads(), 6) << "each once, and never the newest four";
}

TEST(ParkingReadsAhead, NothingWhereAllLiesInMemory) {
  OverMemory f;
  const auto tickets = f.park(static_cast<int>(Parking::kBlocks));
  for (std::size_t i = tickets.size(); i-- > 0;) f.bring(tickets[i]);
  EXPECT_EQ(f.num_reads(), 0);
}

TEST(ParkingWritesBehind, WaitsForTheFourthWriteBefore) {
  OverMemory f;
  f.disk.answer = [](const IoRequest& request) { return static_cast<std::int64_t>(request.memory.size()); };
  f.park(static_cast<int>(Parking::kBlocks));
  EXPECT_EQ(f.disk.most_under_way, Parking::kBlocks) << "none was waited for";
  f.park(5);
  EXPECT_EQ(f.disk.most_under_way, Parking::kBlocks);
}

TEST(ParkingUsesPlacesAgain, AtEveryStep) {
  OverMemory f;
  for (int step = 0; step < 30; ++step) {
    const auto tickets = f.park(6);
    for (std::size_t i = 6; i-- > 0;) {
      EXPECT_EQ(f.bring(tickets[i]), contents(i));
      f.parking.forget(tickets[i]);
    }
  }
  for (const IoRequest& request : f.disk.asked) EXPECT_LT(request.offset, 6 * kPages);
}

// ---- over a link

TEST(ParkingOverALink, CrossesDownAndUp) {
  Ledger ledger;
  Parking parking({.tier = Tier::kHost, .link_bytes_per_second = 50e9}, ledger);
  const auto one = parking.park(contents(1));
  std::vector<std::byte> into(kBytes);
  parking.bring(one, into);
  EXPECT_EQ(into, contents(1));
  EXPECT_EQ(parking.report().link.down_bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(parking.report().link.up_bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(ledger.held(Tier::kDevice, kStaging), kPages) << "what comes ahead lies on the device";
}

TEST(ParkingOverALink, TakesTheTimeThatTheLinkTakes) {
  Ledger ledger;
  constexpr double kSeconds = 0.05;
  Parking parking({.tier = Tier::kHost, .link_bytes_per_second = kBytes / kSeconds}, ledger);
  const auto one = parking.park(contents(1));
  std::vector<std::byte> into(kBytes);
  parking.bring(one, into);
  EXPECT_GE(parking.report().link.busy_seconds, 2 * kSeconds * 0.99);
  EXPECT_GT(parking.report().link.waited_seconds, kSeconds) << "up cannot begin before down is done";
}

TEST(ParkingOverALink, TakesTurnsWithWhatElseCrossesIt) {
  Ledger ledger;
  constexpr double kSeconds = 0.05;
  Timeline timeline;
  timeline.start();
  Link link(kBytes / kSeconds, &timeline);
  Parking parking({.tier = Tier::kHost, .link_bytes_per_second = 50e9}, ledger);
  parking.share_link(link);
  std::vector<std::byte> state(kBytes), copy(kBytes);
  Transfer other = link.down(copy, state);
  const auto one = parking.park(contents(1));
  std::vector<std::byte> into(kBytes);
  parking.bring(one, into);
  other.wait();
  EXPECT_GT(parking.report().link.waited_seconds, 2 * kSeconds) << "its turn, the way down and the way up";
  EXPECT_EQ(link.traffic().down_bytes, static_cast<std::int64_t>(kBytes)) << "each counts its own";
  EXPECT_EQ(parking.report().link.down_bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(std::ranges::count(timeline.spans(), Activity::kLinkDown, &TimelineSpan::activity), 2);
}

// ---- what goes wrong

TEST(ParkingFails, WhereNoFolderIsNamed) {
  Ledger ledger;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { Parking({.tier = Tier::kDisk}, ledger); }), "zero.disk"));
}

TEST(ParkingFails, OpenFindsAFolderThatIsMissing) {
  Ledger ledger;
  Parking parking({.tier = Tier::kDisk, .disk = {"/nowhere/at/all"}}, ledger);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { parking.open(); }), "/nowhere/at/all"));
}

TEST(ParkingFails, AWriteIsToldByALaterPark) {
  OverMemory f;
  f.disk.answer = [](const IoRequest&) { return -EIO; };
  const std::string message = message_of<IoError>([&] { f.park(6); });
  EXPECT_TRUE(says(message, "write of"));
  EXPECT_TRUE(says(message, f.folder.path().string()));
  EXPECT_EQ(message_of<IoError>([&] { f.parking.park(contents(1)); }), message) << "and by everything after";
}

TEST(ParkingFails, AWriteOfWhatIsBroughtFromMemoryIsToldWhenItsBlockIsWanted) {
  OverMemory f;
  f.disk.answer = [](const IoRequest&) { return -ENOSPC; };
  const auto tickets = f.park(2);
  EXPECT_EQ(f.bring(tickets[1]), contents(1)) << "the bytes are right";
  EXPECT_TRUE(says(message_of<IoError>([&] { f.park(4); }), "No space left on device"));
}

TEST(ParkingFails, AReadIsToldByBring) {
  OverMemory f;
  const auto tickets = f.park(6);
  f.disk.answer = [](const IoRequest& request) {
    return request.operation == IoOperation::kRead ? std::int64_t{-EIO}
                                                   : static_cast<std::int64_t>(request.memory.size());
  };
  EXPECT_EQ(f.bring(tickets[5]), contents(5)) << "still in memory";
  const std::string message = message_of<IoError>([&] { f.bring(tickets[0]); });
  EXPECT_TRUE(says(message, "read of"));
  EXPECT_EQ(message_of<IoError>([&] { f.bring(tickets[5]); }), message) << "also where a copy is near";
}

TEST(ParkingFails, AReadAheadIsToldWhenItIsWanted) {
  OverMemory f;
  const auto tickets = f.park(8);
  f.disk.answer = [](const IoRequest& request) {
    return request.operation == IoOperation::kRead ? std::int64_t{-EIO}
                                                   : static_cast<std::int64_t>(request.memory.size());
  };
  EXPECT_EQ(f.bring(tickets[5]), contents(5)) << "4 is near, and 3 begins to be read";
  EXPECT_EQ(f.num_reads(), 1);
  EXPECT_EQ(f.bring(tickets[4]), contents(4));
  EXPECT_TRUE(says(message_of<IoError>([&] { f.bring(tickets[3]); }), "read of"));
}

TEST(ParkingFails, AWriteOfWhatIsForgottenIsToldByTheNext) {
  OverMemory f;
  f.disk.answer = [](const IoRequest&) { return -EIO; };
  f.parking.forget(f.park(1).front());
  EXPECT_TRUE(says(message_of<IoError>([&] { f.park(1); }), "write of"));
}

TEST(ParkingFails, DamagedBytesAreFoundWithChecksums) {
  const TemporaryFolder folder;
  Ledger ledger;
  ScriptedDisk disk;
  Parking parking({.tier = Tier::kDisk, .disk = {folder.path()}, .checksums = true}, ledger,
                  {.make_queue = [&](std::span<const int>, int) { return disk.queue(); }});
  std::vector<Parking::Ticket> tickets;
  for (std::uint64_t i = 0; i < 6; ++i) tickets.push_back(parking.park(contents(i)));
  disk.files[0][100] ^= std::byte{1};
  std::vector<std::byte> into(kBytes);
  EXPECT_TRUE(says(message_of<IoError>([&] { parking.bring(tickets[0], into); }), "is not what was written there"));
}

TEST(ParkingFails, ADiskThatIsFullIsToldBeforeAnythingIsWritten) {
  const TemporaryFolder folder;
  Ledger ledger;
  FailingCalls calls;
  calls.free_bytes = 1 << 20;
  Parking parking({.tier = Tier::kDisk, .disk = {folder.path()}}, ledger, {.files = &calls});
  EXPECT_TRUE(says(message_of<ConfigError>([&] { parking.park(contents(1)); }), "zero.disk_memory"));
  EXPECT_EQ(parking.report().bytes, 0);
  calls.free_bytes = -1;
  const auto ticket = parking.park(contents(1));
  std::vector<std::byte> into(kBytes);
  parking.bring(ticket, into);
  EXPECT_EQ(into, contents(1)) << "room was made: it goes on";
}

}  // namespace
}  // namespace zero
