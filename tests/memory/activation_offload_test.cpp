#include "zero/memory/activation_offload.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"
#include "zero/base/process/clock.h"

#include "tests/memory/failing_calls.h"
#include "tests/memory/filled_pages.h"
#include "tests/memory/scripted_queue.h"
#include "tests/support/message_of.h"
#include "tests/support/simulated_time.h"
#include "tests/support/temporary_folder.h"

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

class ActivationOffloadOn : public testing::TestWithParam<Way> {
 protected:
  ActivationOffloadOptions options() const {
    return {
        .tier = GetParam().tier, .disk = {folder.path()}, .checksums = true, .link_bytes_per_second = GetParam().link};
  }
  std::vector<ActivationOffload::Handle> offload(ActivationOffload& activation_offload, int count) {
    std::vector<ActivationOffload::Handle> handle;
    for (int i = 0; i < count; ++i) {
      std::vector<std::byte> block = contents(static_cast<std::uint64_t>(i));
      handle.push_back(activation_offload.offload(block));
      std::fill(block.begin(), block.end(), std::byte{0xee});  // the caller may use the block again at once
    }
    return handle;
  }
  static testing::AssertionResult brings(ActivationOffload& activation_offload, ActivationOffload::Handle handle,
                                         std::uint64_t seed) {
    std::vector<std::byte> into(kBytes);
    activation_offload.bring(handle, into);
    return into == contents(seed) ? testing::AssertionSuccess()
                                  : testing::AssertionFailure() << "other bytes than were offloaded as " << handle;
  }

  TemporaryFolder folder;
  Ledger ledger;
};

TEST_P(ActivationOffloadOn, BringsBackTheLastFirst) {
  ActivationOffload activation_offload(options(), ledger);
  for (int step = 0; step < 3; ++step) {
    const auto handle = offload(activation_offload, 12);
    EXPECT_EQ(activation_offload.report().bytes, 12 * static_cast<std::int64_t>(kBytes));
    for (std::size_t i = handle.size(); i-- > 0;) {
      EXPECT_TRUE(brings(activation_offload, handle[i], i));
      activation_offload.forget(handle[i]);
    }
  }
  EXPECT_EQ(activation_offload.report().bytes, 0);
  EXPECT_EQ(activation_offload.report().peak_bytes, 12 * static_cast<std::int64_t>(kBytes));
}

TEST_P(ActivationOffloadOn, FetchesInAnyOrderRepeatedly) {
  ActivationOffload activation_offload(options(), ledger);
  const auto handle = offload(activation_offload, 9);
  for (const std::size_t i : {0, 8, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 5, 4, 3, 3, 8, 2, 7, 1})
    EXPECT_TRUE(brings(activation_offload, handle[i], i));
}

TEST_P(ActivationOffloadOn, ForgetsWhatNobodyBrought) {
  ActivationOffload activation_offload(options(), ledger);
  const auto dropped = offload(activation_offload, 7);
  const MemoryCount host = ledger.held(Tier::kHost), disk = ledger.held(Tier::kDisk);
  for (const ActivationOffload::Handle handle : dropped) activation_offload.forget(handle);
  const auto handle = offload(activation_offload, 7);
  EXPECT_EQ(ledger.held(Tier::kHost), host) << "the same memory is used again";
  EXPECT_EQ(ledger.held(Tier::kDisk), disk);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_TRUE(brings(activation_offload, handle[i], i));
}

TEST_P(ActivationOffloadOn, ForgetsMiddleWhileTransfersRun) {
  ActivationOffload activation_offload(options(), ledger);
  const auto handle = offload(activation_offload, 8);
  EXPECT_TRUE(brings(activation_offload, handle[7], 7));  // 6 and 5 are fetched
  activation_offload.forget(handle[6]);
  activation_offload.forget(handle[3]);
  EXPECT_TRUE(brings(activation_offload, handle[5], 5));
  EXPECT_TRUE(brings(activation_offload, handle[4], 4));
  EXPECT_TRUE(brings(activation_offload, handle[2], 2));
}

TEST_P(ActivationOffloadOn, MayEndWithThingsUnderWay) {
  ActivationOffload activation_offload(options(), ledger);
  const auto handle = offload(activation_offload, 8);
  EXPECT_TRUE(brings(activation_offload, handle[4], 4));
}

TEST_P(ActivationOffloadOn, KeepsItsSizeAfterFirstStep) {
  ActivationOffload activation_offload(options(), ledger);
  MemoryCount first;
  for (int step = 0; step < 200; ++step) {
    const auto handle = offload(activation_offload, 6);
    for (std::size_t i = 6; i-- > 0;) {
      std::vector<std::byte> into(kBytes);
      activation_offload.bring(handle[i], into);
      activation_offload.forget(handle[i]);
    }
    if (step == 0) first = ledger.peak(Tier::kHost);
  }
  EXPECT_EQ(ledger.peak(Tier::kHost), first);
}

TEST_P(ActivationOffloadOn, TakesDeclaredMemoryWithinLimit) {
  constexpr int kCount = 7;
  ActivationOffloadOptions limited = options();
  const ActivationOffloadNeed need = activation_offload_need(limited, kCount, static_cast<std::int64_t>(kBytes));
  limited.expected_bytes = limited.most_bytes = need[GetParam().tier];
  ActivationOffload activation_offload(limited, ledger);
  activation_offload.open();
  const auto handle = offload(activation_offload, kCount);
  const std::string message = message_of<ConfigError>([&] { offload(activation_offload, 1); });
  EXPECT_TRUE(says(message, GetParam().tier == Tier::kDisk ? "zero.disk_memory" : "zero.host_memory")) << message;
  EXPECT_EQ(activation_offload.report().bytes, kCount * static_cast<std::int64_t>(kBytes))
      << "and nothing is offloaded";
  for (std::size_t i = kCount; i-- > 0;) {
    EXPECT_TRUE(brings(activation_offload, handle[i], i));
    activation_offload.forget(handle[i]);
  }
  offload(activation_offload, kCount);
  EXPECT_EQ(ledger.peak_total(Tier::kHost), need.host);
  EXPECT_LE(ledger.peak_total(Tier::kDevice), need.device) << "four blocks; in this order three";
  EXPECT_EQ(ledger.peak_total(Tier::kDisk), need.disk);
}

TEST_P(ActivationOffloadOn, CopesWithSizesThatVary) {
  rc::check([&] {
    Ledger own;
    ActivationOffload activation_offload(options(), own);
    std::vector<std::pair<ActivationOffload::Handle, std::vector<std::byte>>> offloaded;
    const auto choices = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 1'000'000));
    std::vector<std::byte> into;
    for (const std::uint64_t choice : choices) {
      const std::size_t which = offloaded.empty() ? 0 : choice / 4 % offloaded.size();
      if (choice % 4 < 2 || offloaded.empty()) {
        std::vector<std::byte> block = contents(choice, 1 + choice % 30'000);
        offloaded.emplace_back(activation_offload.offload(block), block);
      } else if (choice % 4 == 2) {
        into.resize(offloaded[which].second.size());
        activation_offload.bring(offloaded[which].first, into);
        RC_ASSERT(into == offloaded[which].second);
      } else {
        activation_offload.forget(offloaded[which].first);
        offloaded.erase(offloaded.begin() + static_cast<std::ptrdiff_t>(which));
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ActivationOffloadOn,
                         testing::Values(Way{"host", Tier::kHost, 0}, Way{"host_over_link", Tier::kHost, 20e9},
                                         Way{"disk", Tier::kDisk, 0}, Way{"disk_over_link", Tier::kDisk, 20e9}),
                         [](const auto& instance) { return std::string(instance.param.name); });

// ---- bytes on each tier

TEST(ActivationOffloadOnTheHost, IsInTheLedgerThere) {
  Ledger ledger;
  ActivationOffload activation_offload({.tier = Tier::kHost}, ledger);
  activation_offload.offload(contents(1));
  activation_offload.offload(contents(2));
  EXPECT_EQ(ledger.held(Tier::kHost, kActivation), 2 * static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(ledger.held(Tier::kHost).total(), 2 * static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(ledger.held(Tier::kDevice), MemoryCount{});
  EXPECT_EQ(activation_offload.report().disk_kind, "");
}

TEST(ActivationOffloadOnTheHost, ReleasesUnneededSizes) {
  Ledger ledger;
  ActivationOffload activation_offload({.tier = Tier::kHost}, ledger);
  for (std::size_t bytes = 1000; bytes <= 9000; bytes += 1000) {
    const auto one = activation_offload.offload(contents(1, bytes)),
               two = activation_offload.offload(contents(2, bytes));
    activation_offload.forget(one);
    activation_offload.forget(two);
  }
  EXPECT_LE(ledger.peak_total(Tier::kHost), 18000) << "at most the bytes that were offloaded at once";
}

TEST(ActivationOffloadOnDisk, HoldsFourBlocksOfMemory) {
  const TemporaryFolder folder;
  Ledger ledger;
  ActivationOffload activation_offload({.tier = Tier::kDisk, .disk = {folder.path()}}, ledger);
  std::vector<ActivationOffload::Handle> handle;
  for (std::uint64_t i = 0; i < 20; ++i) handle.push_back(activation_offload.offload(contents(i)));
  std::vector<std::byte> into(kBytes);
  for (const ActivationOffload::Handle handle : handle) activation_offload.bring(handle, into);
  EXPECT_EQ(ledger.peak_total(Tier::kHost), static_cast<std::int64_t>(ActivationOffload::kBlocks) * kPages);
  EXPECT_EQ(ledger.peak(Tier::kHost)[kStaging], ledger.peak_total(Tier::kHost));
  EXPECT_EQ(ledger.held(Tier::kDisk, kActivation), DiskPlaces::kSlabBytes);
  EXPECT_NE(activation_offload.report().disk_kind.find("1 path"), std::string::npos);
}

// ---- order of reads

// A disk in memory that records its requests.
struct OverMemory {
  TemporaryFolder folder;
  ScriptedDisk disk;
  Ledger ledger;
  ActivationOffload activation_offload{{.tier = Tier::kDisk, .disk = {folder.path()}},
                                       ledger,
                                       {.make_queue = [this](std::span<const int>, int) { return disk.queue(); }}};

  std::vector<ActivationOffload::Handle> offload(int count) {
    std::vector<ActivationOffload::Handle> handle;
    for (int i = 0; i < count; ++i)
      handle.push_back(activation_offload.offload(contents(static_cast<std::uint64_t>(i))));
    return handle;
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
  std::vector<std::byte> bring(ActivationOffload::Handle handle) {
    std::vector<std::byte> into(kBytes);
    activation_offload.bring(handle, into);
    return into;
  }
};

TEST(ActivationOffloadReadsAhead, ReadsTwoAheadOfWanted) {
  OverMemory f;
  const auto handle = f.offload(10);
  EXPECT_EQ(f.num_reads(), 0);
  for (std::size_t i = 10; i-- > 6;) {
    EXPECT_EQ(f.bring(handle[i]), contents(i));
    // The newest activations are still in memory.
    EXPECT_EQ(f.num_reads(), i == 9 || i == 8 ? 0 : 8 - static_cast<int>(i)) << i;
    f.activation_offload.forget(handle[i]);
  }
  EXPECT_EQ(f.last_read(), 4);
  for (std::size_t i = 6; i-- > 0;) {
    EXPECT_EQ(f.bring(handle[i]), contents(i));
    f.activation_offload.forget(handle[i]);
  }
  EXPECT_EQ(f.num_reads(), 6) << "each once, and never the newest four";
}

TEST(ActivationOffloadReadsAhead, NothingWhereAllLiesInMemory) {
  OverMemory f;
  const auto handle = f.offload(static_cast<int>(ActivationOffload::kBlocks));
  for (std::size_t i = handle.size(); i-- > 0;) f.bring(handle[i]);
  EXPECT_EQ(f.num_reads(), 0);
}

TEST(ActivationOffloadWritesBehind, WaitsForTheFourthWriteBefore) {
  OverMemory f;
  f.disk.answer = [](const IoRequest& request) { return static_cast<std::int64_t>(request.memory.size()); };
  f.offload(static_cast<int>(ActivationOffload::kBlocks));
  EXPECT_EQ(f.disk.most_under_way, ActivationOffload::kBlocks) << "none was waited for";
  f.offload(5);
  EXPECT_EQ(f.disk.most_under_way, ActivationOffload::kBlocks);
}

TEST(ActivationOffloadUsesPlacesAgain, AtEveryStep) {
  OverMemory f;
  for (int step = 0; step < 30; ++step) {
    const auto handle = f.offload(6);
    for (std::size_t i = 6; i-- > 0;) {
      EXPECT_EQ(f.bring(handle[i]), contents(i));
      f.activation_offload.forget(handle[i]);
    }
  }
  for (const IoRequest& request : f.disk.asked) EXPECT_LT(request.offset, 6 * kPages);
}

// ---- over a link

TEST(ActivationOffloadOverALink, CrossesDownAndUp) {
  Ledger ledger;
  ActivationOffload activation_offload({.tier = Tier::kHost, .link_bytes_per_second = 50e9}, ledger);
  const auto one = activation_offload.offload(contents(1));
  std::vector<std::byte> into(kBytes);
  activation_offload.bring(one, into);
  EXPECT_EQ(into, contents(1));
  EXPECT_EQ(activation_offload.report().link.down_bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(activation_offload.report().link.up_bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(ledger.held(Tier::kDevice, kStaging), kPages) << "a block fetched ahead is on the device";
}

TEST(ActivationOffloadOverALink, TakesLinkTime) {
  Ledger ledger;
  constexpr double kSeconds = 0.05;
  const SimulatedTime time;
  const PacedLink link(kBytes / kSeconds, nullptr, time);
  ActivationOffload activation_offload({.tier = Tier::kHost, .link_bytes_per_second = 50e9}, ledger);
  activation_offload.share_link(link);
  const auto one = activation_offload.offload(contents(1));
  std::vector<std::byte> into(kBytes);
  activation_offload.bring(one, into);
  EXPECT_NEAR(activation_offload.report().link.busy_seconds, 2 * kSeconds, 1e-9);
  EXPECT_NEAR(activation_offload.report().link.waited_seconds, 2 * kSeconds, 1e-9)
      << "the upload begins after the offload";
}

TEST(ActivationOffloadOverALink, SharesLinkInTurns) {
  Ledger ledger;
  constexpr double kSeconds = 0.05;
  Timeline timeline;
  timeline.start();
  const SimulatedTime time(monotonic_seconds());
  PacedLink link(kBytes / kSeconds, &timeline, time);
  ActivationOffload activation_offload({.tier = Tier::kHost, .link_bytes_per_second = 50e9}, ledger);
  activation_offload.share_link(link);
  std::vector<std::byte> state(kBytes), copy(kBytes);
  Transfer other = link.down(copy, state);
  const auto one = activation_offload.offload(contents(1));
  std::vector<std::byte> into(kBytes);
  activation_offload.bring(one, into);
  other.wait();
  EXPECT_NEAR(activation_offload.report().link.waited_seconds, 3 * kSeconds, 1e-9)
      << "its turn, the way down and the way up";
  EXPECT_EQ(link.traffic().down_bytes, static_cast<std::int64_t>(kBytes)) << "each counts its own";
  EXPECT_EQ(activation_offload.report().link.down_bytes, static_cast<std::int64_t>(kBytes));
  EXPECT_EQ(std::ranges::count(timeline.spans(), Activity::kLinkDown, &TimelineSpan::activity), 2);
}

// ---- errors

TEST(ActivationOffloadFails, WhereNoFolderIsNamed) {
  Ledger ledger;
  EXPECT_TRUE(says(message_of<ConfigError>([&] { ActivationOffload({.tier = Tier::kDisk}, ledger); }), "zero.disk"));
}

TEST(ActivationOffloadFails, NumbersBelowZeroAreRefused) {
  Ledger ledger;
  const auto refusal = [&](const ActivationOffloadOptions& options) {
    return message_of<ConfigError>([&] { ActivationOffload(options, ledger); });
  };
  EXPECT_TRUE(says(refusal({.link_bytes_per_second = -1}), "zero.link_bandwidth = -1: "));
  EXPECT_TRUE(says(refusal({.most_bytes = -5}), "most_bytes = -5: must be a finite number, 0 or more"));
  EXPECT_TRUE(says(refusal({.expected_bytes = -5}), "expected_bytes = -5: "));
}

TEST(ActivationOffloadFails, OpenReportsMissingFolder) {
  Ledger ledger;
  ActivationOffload activation_offload({.tier = Tier::kDisk, .disk = {"/nowhere/at/all"}}, ledger);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { activation_offload.open(); }), "/nowhere/at/all"));
}

TEST(ActivationOffloadFails, LaterParkReportsFailedWrite) {
  OverMemory f;
  f.disk.answer = [](const IoRequest&) { return -EIO; };
  const std::string message = message_of<IoError>([&] { f.offload(6); });
  EXPECT_TRUE(says(message, "write of"));
  EXPECT_TRUE(says(message, f.folder.path().string()));
  EXPECT_EQ(message_of<IoError>([&] { f.activation_offload.offload(contents(1)); }), message)
      << "and by everything after";
}

// The activation itself is fetched from memory. The error of the write appears when its block is needed.
TEST(ActivationOffloadFails, FetchReportsFailedWrite) {
  OverMemory f;
  f.disk.answer = [](const IoRequest&) { return -ENOSPC; };
  const auto handle = f.offload(2);
  EXPECT_EQ(f.bring(handle[1]), contents(1)) << "the bytes are right";
  EXPECT_TRUE(says(message_of<IoError>([&] { f.offload(4); }), "No space left on device"));
}

TEST(ActivationOffloadFails, AReadIsToldByBring) {
  OverMemory f;
  const auto handle = f.offload(6);
  f.disk.answer = [](const IoRequest& request) {
    return request.operation == IoOperation::kRead ? std::int64_t{-EIO}
                                                   : static_cast<std::int64_t>(request.memory.size());
  };
  EXPECT_EQ(f.bring(handle[5]), contents(5)) << "still in memory";
  const std::string message = message_of<IoError>([&] { f.bring(handle[0]); });
  EXPECT_TRUE(says(message, "read of"));
  EXPECT_EQ(message_of<IoError>([&] { f.bring(handle[5]); }), message) << "also if a copy was fetched ahead";
}

TEST(ActivationOffloadFails, FetchReportsFailedReadAhead) {
  OverMemory f;
  const auto handle = f.offload(8);
  f.disk.answer = [](const IoRequest& request) {
    return request.operation == IoOperation::kRead ? std::int64_t{-EIO}
                                                   : static_cast<std::int64_t>(request.memory.size());
  };
  EXPECT_EQ(f.bring(handle[5]), contents(5)) << "4 was fetched ahead, and the read of 3 begins";
  EXPECT_EQ(f.num_reads(), 1);
  EXPECT_EQ(f.bring(handle[4]), contents(4));
  EXPECT_TRUE(says(message_of<IoError>([&] { f.bring(handle[3]); }), "read of"));
}

TEST(ActivationOffloadFails, NextCallReportsForgottenWritesError) {
  OverMemory f;
  f.disk.answer = [](const IoRequest&) { return -EIO; };
  f.activation_offload.forget(f.offload(1).front());
  EXPECT_TRUE(says(message_of<IoError>([&] { f.offload(1); }), "write of"));
}

TEST(ActivationOffloadFails, DamagedBytesAreFoundWithChecksums) {
  const TemporaryFolder folder;
  Ledger ledger;
  ScriptedDisk disk;
  ActivationOffload activation_offload({.tier = Tier::kDisk, .disk = {folder.path()}, .checksums = true}, ledger,
                                       {.make_queue = [&](std::span<const int>, int) { return disk.queue(); }});
  std::vector<ActivationOffload::Handle> handle;
  for (std::uint64_t i = 0; i < 6; ++i) handle.push_back(activation_offload.offload(contents(i)));
  disk.files[0][100] ^= std::byte{1};
  std::vector<std::byte> into(kBytes);
  EXPECT_TRUE(says(message_of<IoError>([&] { activation_offload.bring(handle[0], into); }),
                   "differs from the page written there"));
}

TEST(ActivationOffloadFails, ReportsFullDiskBeforeWriting) {
  const TemporaryFolder folder;
  Ledger ledger;
  FailingCalls calls;
  calls.free_bytes = 1 << 20;
  ActivationOffload activation_offload({.tier = Tier::kDisk, .disk = {folder.path()}}, ledger, {.files = &calls});
  EXPECT_TRUE(says(message_of<ConfigError>([&] { activation_offload.offload(contents(1)); }), "zero.disk_memory"));
  EXPECT_EQ(activation_offload.report().bytes, 0);
  calls.free_bytes = -1;
  const auto handle = activation_offload.offload(contents(1));
  std::vector<std::byte> into(kBytes);
  activation_offload.bring(handle, into);
  EXPECT_EQ(into, contents(1)) << "room was made: it goes on";
}

}  // namespace
}  // namespace zero
