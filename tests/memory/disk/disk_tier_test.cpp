#include "zero/memory/disk/disk_tier.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/memory/disk/disk_seam.h"
#include "zero/memory/io/thread_queue.h"
#include "zero/memory/io/uring_queue.h"

#include "tests/memory/failing_calls.h"
#include "tests/memory/filled_pages.h"
#include "tests/memory/scripted_queue.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr std::size_t kPage = DiskTier::kPageBytes;
constexpr std::int64_t kStripe = DiskTier::kStripeBytes;
constexpr std::int64_t kMiB = 1 << 20;

// 0, or the errno value with which io_uring is refused here.
int uring_refusal() {
  const std::array<int, 1> files{STDIN_FILENO};
  return open_uring_queue(files, 1).error;
}

// A disk tier over three folders, with io_uring or threads.
class DiskTiers : public testing::TestWithParam<DiskEngine> {
 protected:
  void SetUp() override {
    if (const int error = uring_refusal(); error != 0 && GetParam() == DiskEngine::kUring)
      GTEST_SKIP() << "io_uring is refused here: " << std::strerror(error);
  }
  DiskOptions options(std::int64_t bytes, int num_paths = 3, bool checksums = false) const {
    DiskOptions options{.bytes = bytes, .engine = GetParam(), .queue_depth = 4, .checksums = checksums};
    for (int i = 0; i < num_paths; ++i) options.paths.push_back(folders_[static_cast<std::size_t>(i)].path());
    return options;
  }
  std::size_t num_files() const { return folders_[0].num_files() + folders_[1].num_files() + folders_[2].num_files(); }

  std::array<TemporaryFolder, 3> folders_;
};

TEST_P(DiskTiers, GiveBackWhatTheyWereGiven) {
  DiskTier disk(options(20 * kMiB));
  const Allocation block = filled_pages(static_cast<std::size_t>(9 * kMiB) + kPage, 1);
  const Allocation back = allocate_host(block.size());
  disk.reserve(kPage);  // so the place begins within a stripe
  const std::int64_t at = disk.reserve(static_cast<std::int64_t>(block.size()));
  disk.write(at, block.bytes()).wait();
  disk.read(at, back.bytes()).wait();
  EXPECT_TRUE(same_bytes(block.bytes(), back.bytes()));
  EXPECT_EQ(disk.traffic().written_bytes, static_cast<std::int64_t>(block.size()));
  EXPECT_EQ(disk.traffic().read_bytes, static_cast<std::int64_t>(block.size()));
  EXPECT_GE(disk.traffic().waited_seconds, 0);
}

TEST_P(DiskTiers, MoveManyBlocksAtOnce) {
  DiskTier disk(options(16 * kMiB));
  const Allocation block = filled_pages(static_cast<std::size_t>(16 * kMiB), 2);
  const Allocation back = allocate_host(block.size());
  std::vector<Transfer> transfers;
  std::vector<std::int64_t> places;
  constexpr std::size_t kBlock = 16 * kPage;
  for (std::size_t at = 0; at < block.size(); at += kBlock) {
    places.push_back(disk.reserve(kBlock));
    transfers.push_back(disk.write(places.back(), block.bytes().subspan(at, kBlock)));
  }
  transfers.clear();
  for (std::size_t i = places.size(); i-- > 0;)
    transfers.push_back(disk.read(places[i], back.bytes().subspan(i * kBlock, kBlock)));
  for (auto& transfer : transfers) transfer.wait();
  EXPECT_TRUE(same_bytes(block.bytes(), back.bytes()));
}

TEST_P(DiskTiers, AreDoneWithoutBeingWaitedFor) {
  DiskTier disk(options(4 * kMiB));
  const Allocation block = filled_pages(static_cast<std::size_t>(4 * kMiB), 3);
  const Transfer write = disk.write(disk.reserve(4 * kMiB), block.bytes());
  while (!write.done()) std::this_thread::yield();
  EXPECT_EQ(disk.traffic().written_bytes, 4 * kMiB);
  EXPECT_EQ(disk.traffic().waited_seconds, 0);
}

// Sequences of reservations, writes and reads, some of them in flight at the same time.
TEST_P(DiskTiers, ReturnWrittenBytesInAnyOrder) {
  rc::check([&] {
    const int num_paths = *rc::gen::inRange(1, 4);
    const bool checksums = *rc::gen::arbitrary<bool>();
    constexpr std::int64_t kCapacity = 4 * kMiB;  // four stripes: one for each path and one more
    DiskTier disk(options(kCapacity, num_paths, checksums));
    struct Place {
      std::int64_t at;
      Allocation contents;
    };
    std::vector<Place> places;
    const auto seeds = *rc::gen::container<std::vector<std::uint64_t>>(rc::gen::inRange<std::uint64_t>(0, 1000));
    std::vector<std::pair<Transfer, std::size_t>> writes;
    for (const std::uint64_t seed : seeds) {
      const auto pages = static_cast<std::int64_t>(seed % 40 + 1) * static_cast<std::int64_t>(kPage);
      if (seed % 2 == 0 && disk.reserved_bytes() + pages <= kCapacity) {
        places.push_back({disk.reserve(pages), filled_pages(static_cast<std::size_t>(pages), seed)});
        writes.emplace_back(disk.write(places.back().at, places.back().contents.bytes()), places.size() - 1);
      } else if (!places.empty()) {  // write a part of a place again
        writes.clear();
        Place& place = places[seed % places.size()];
        const std::size_t from = place.contents.size() / kPage / 2 * kPage;
        const Allocation part = filled_pages(place.contents.size() - from, seed + 1);
        std::memcpy(place.contents.data() + from, part.data(), part.size());
        disk.write(place.at + static_cast<std::int64_t>(from), part.bytes()).wait();
      }
    }
    writes.clear();
    std::vector<Transfer> reads;
    std::vector<Allocation> back;
    for (const Place& place : places) {
      back.push_back(allocate_host(place.contents.size()));
      reads.push_back(disk.read(place.at, back.back().bytes()));
    }
    for (std::size_t i = 0; i < places.size(); ++i) {
      reads[i].wait();
      RC_ASSERT(same_bytes(back[i].bytes(), places[i].contents.bytes()));
    }
  });
}

TEST_P(DiskTiers, HaveNoNameInTheirFolders) {
  const DiskTier disk(options(4 * kMiB));
  EXPECT_EQ(num_files(), 0U);
}

// A process is killed in the middle of its writes. Its files had no names, so nothing is left.
TEST_P(DiskTiers, LeaveNothingBehindWhenKilled) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    DiskTier disk(options(64 * kMiB));
    const Allocation block = filled_pages(static_cast<std::size_t>(8 * kMiB), 1);
    const std::int64_t at = disk.reserve(8 * kMiB);
    disk.write(at, block.bytes()).wait();
    for (bool told = false;; told = true) {
      const Transfer write = disk.write(at, block.bytes());
      if (!told && ::write(ready[1], "x", 1) != 1) _exit(1);
    }
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the child wrote nothing";
  close(ready[0]);
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(num_files(), 0U);
}

TEST_P(DiskTiers, TransferResultsOutliveThem) {
  const Allocation block = filled_pages(static_cast<std::size_t>(8 * kMiB), 1);
  std::vector<Transfer> transfers;
  {
    DiskTier disk(options(16 * kMiB));
    const std::int64_t at = disk.reserve(16 * kMiB);
    transfers.push_back(disk.write(at, block.bytes()));
    transfers.push_back(disk.write(at + 8 * kMiB, block.bytes()));
  }
  for (auto& transfer : transfers) {
    EXPECT_TRUE(transfer.done());
    transfer.wait();
  }
}

// Bytes of the files below `folder` that this process has open. The files of a tier have no names.
std::int64_t open_bytes(const std::string& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string file = std::filesystem::read_symlink(entry.path(), error).string();
    struct stat found {};
    if (!error && file.starts_with(folder) && ::fstat(std::stoi(entry.path().filename().string()), &found) == 0)
      bytes += static_cast<std::int64_t>(found.st_blocks) * 512;
  }
  return bytes;
}

// Other programs write to the same file system, so the test does not compare its free space.
TEST_P(DiskTiers, GiveTheirRoomBack) {
  const std::string folder = folders_[0].path();
  EXPECT_EQ(open_bytes(folder), 0);
  {
    const DiskTier disk(options(256 * kMiB, 1));
    EXPECT_GE(open_bytes(folder), 256 * kMiB);
  }
  EXPECT_EQ(open_bytes(folder), 0);
}

// Both engines read and write the memory.
TEST_P(DiskTiers, OnlyIoUringLocksMemory) {
  DiskTier disk(options(4 * kMiB));
  const Allocation block = filled_pages(static_cast<std::size_t>(kMiB), 1);
  const Allocation back = allocate_host(static_cast<std::size_t>(kMiB));
  const bool locked = disk.register_memory(block.bytes());
  EXPECT_FALSE(locked && GetParam() == DiskEngine::kThreads);
  disk.register_memory(back.bytes());
  const std::int64_t at = disk.reserve(kMiB);
  disk.write(at, block.bytes()).wait();
  disk.read(at, back.bytes()).wait();
  EXPECT_TRUE(same_bytes(block.bytes(), back.bytes()));
  EXPECT_EQ(disk.describe().find("registered buffers") != std::string::npos, locked);
  disk.forget_memory(back.bytes());
  disk.read(at, back.bytes()).wait();
  EXPECT_TRUE(same_bytes(block.bytes(), back.bytes()));
}

TEST_P(DiskTiers, SayWhatTheyAre) {
  const DiskTier disk(options(4 * kMiB, 2));
  const std::string text = disk.describe();
  EXPECT_TRUE(text.starts_with(GetParam() == DiskEngine::kUring ? "io_uring, " : "threads, ")) << text;
  EXPECT_TRUE(text.ends_with(", 2 paths")) << text;
}

INSTANTIATE_TEST_SUITE_P(Engines, DiskTiers, testing::Values(DiskEngine::kUring, DiskEngine::kThreads),
                         [](const auto& info) {
                           return std::string(info.param == DiskEngine::kUring ? "io_uring" : "threads");
                         });

// ---- over a disk whose answers the test decides -------------------------------------------------------------------

struct Scripted {
  explicit Scripted(DiskOptions changed = {}) : options(std::move(changed)) {
    options.paths = {folder.path(), folder.path()};
    if (options.bytes == 0) options.bytes = 8 * kMiB;
    options.queue_depth = 4;
    seam.opening_limit = std::chrono::seconds(60);
    seam.make_queue = [this](std::span<const int> files, int depth) {
      EXPECT_EQ(files.size(), 2U);
      EXPECT_EQ(depth, 4);
      return disk.queue();
    };
  }

  TemporaryFolder folder;
  DiskOptions options;
  ScriptedDisk disk;
  DiskSeam seam;
};

TEST(DiskTier, StripesVisitPathsInTurn) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  const Allocation block = allocate_host(static_cast<std::size_t>(3 * kStripe));
  disk.reserve(static_cast<std::int64_t>(kPage));
  s.disk.answer = [](const IoRequest& request) { return static_cast<std::int64_t>(request.memory.size()); };
  disk.write(disk.reserve(3 * kStripe), block.bytes()).wait();
  ASSERT_EQ(s.disk.asked.size(), 4U);
  const auto is = [&](std::size_t i, int file, std::int64_t offset, std::int64_t bytes) {
    const IoRequest& request = s.disk.asked[i];
    return request.file == file && request.offset == offset &&
           static_cast<std::int64_t>(request.memory.size()) == bytes;
  };
  const auto page = static_cast<std::int64_t>(kPage);
  EXPECT_TRUE(is(0, 0, page, kStripe - page));
  EXPECT_TRUE(is(1, 1, 0, kStripe));
  EXPECT_TRUE(is(2, 0, kStripe, kStripe));
  EXPECT_TRUE(is(3, 1, kStripe, page));
}

TEST(DiskTier, PlacesAreConsecutiveWholePages) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  EXPECT_EQ(disk.reserve(1), 0);
  EXPECT_EQ(disk.reserve(4097), 4096);
  EXPECT_EQ(disk.reserve(0), 12288);
  EXPECT_EQ(disk.reserve(4096), 12288);
  EXPECT_EQ(disk.reserved_bytes(), 16384);
  EXPECT_EQ(disk.capacity_bytes(), 8 * kMiB);
}

TEST(DiskTier, RefusalNamesSufficientSize) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  disk.reserve(6 * kMiB);
  const std::string text = message_of<ConfigError>([&] { disk.reserve(3 * kMiB); });
  EXPECT_TRUE(says(text, "zero.disk_memory = 8.00 MiB: 6.00 MiB of it are taken, and 3.00 MiB more are needed"));
  EXPECT_TRUE(says(text, "Give at least 9437184 B (9.00 MiB).")) << text;
  EXPECT_EQ(disk.reserve(2 * kMiB), 6 * kMiB);
}

// This includes requests beyond their place.
TEST(DiskTier, PartialPagesAreOurBug) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  const std::int64_t first = disk.reserve(2 * 4096);
  disk.reserve(2 * 4096);
  const Allocation block = allocate_host(4 * kPage);
  EXPECT_THROW((void)disk.read(first + 1, block.bytes().first(kPage)), InternalError);
  EXPECT_THROW((void)disk.read(first, block.bytes().first(100)), InternalError);
  EXPECT_THROW((void)disk.read(first, block.bytes().subspan(8, kPage)), InternalError);
  EXPECT_THROW((void)disk.read(first, block.bytes().first(3 * kPage)), InternalError) << "the range covers two places";
  EXPECT_THROW((void)disk.read(4 * 4096, block.bytes().first(kPage)), InternalError) << "the range has no owner";
  EXPECT_THROW((void)disk.read(-4096, block.bytes().first(kPage)), InternalError);
  EXPECT_TRUE(s.disk.asked.empty());
}

// The write ends with an error after some of its requests have begun. They are finished.
TEST(DiskTier, OverlappingWriteIsOurBug) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  const Allocation block = allocate_host(static_cast<std::size_t>(4 * kStripe));
  const auto stripes = [&](int from, int count) {
    return block.bytes().subspan(static_cast<std::size_t>(from * kStripe), static_cast<std::size_t>(count * kStripe));
  };
  const std::int64_t at = disk.reserve(3 * kStripe);
  Transfer last = disk.write(at + 2 * kStripe, stripes(0, 1));
  EXPECT_THROW((void)disk.write(at, stripes(1, 3)), InternalError);
  EXPECT_EQ(disk.traffic().written_bytes, 3 * kStripe)
      << "two stripes of the second write, and the first write meanwhile";
  last.wait();
}

TEST(DiskTier, NothingIsMovedAtOnce) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  EXPECT_TRUE(disk.write(0, {}).done());
}

TEST(DiskTier, OnlyItsWaitThrowsError) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  const Allocation block = allocate_host(static_cast<std::size_t>(2 * kStripe));
  const std::int64_t good = disk.reserve(kStripe);
  const std::int64_t bad = disk.reserve(2 * kStripe);
  s.disk.answer = [&](const IoRequest& request) {
    return request.offset == 0 && request.file == 0 ? static_cast<std::int64_t>(request.memory.size()) : -ENOSPC;
  };
  Transfer works = disk.write(good, block.bytes().first(static_cast<std::size_t>(kStripe)));
  Transfer fails = disk.write(bad, block.bytes());
  works.wait();
  const std::string text = message_of<IoError>([&] { fails.wait(); });
  EXPECT_TRUE(says(text, s.folder.path().native() + ": write of 1,048,576 bytes at 0: No space left on device"));
  EXPECT_TRUE(fails.done());
  EXPECT_EQ(disk.traffic().written_bytes, kStripe);
}

// An error stops the rest of its transfer.
TEST(DiskTier, ErrorStopsTheRest) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  s.disk.answer = [](const IoRequest&) { return -EIO; };
  const Allocation block = allocate_host(static_cast<std::size_t>(8 * kMiB));
  Transfer write = disk.write(disk.reserve(8 * kMiB), block.bytes());
  EXPECT_THROW(write.wait(), IoError);
  EXPECT_LT(s.disk.asked.size(), 8U);
}

TEST(DiskTier, FinishesShortAnswersAtOddSizes) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  s.disk.answer = [](const IoRequest& request) {
    return std::min<std::int64_t>(static_cast<std::int64_t>(request.memory.size()), 5 * 4096 + 511);
  };
  const Allocation block = filled_pages(40 * kPage, 1);
  const Allocation back = allocate_host(40 * kPage);
  const std::int64_t at = disk.reserve(40 * 4096);
  disk.write(at, block.bytes()).wait();
  disk.read(at, back.bytes()).wait();
  EXPECT_TRUE(same_bytes(block.bytes(), back.bytes()));
}

TEST(DiskTier, HangingDiskRefusesMoreWork) {
  Scripted s({.timeout = std::chrono::milliseconds(20)});
  DiskTier disk(s.options, s.seam);
  const Allocation block = allocate_host(2 * kPage);
  const std::int64_t at = disk.reserve(2 * 4096);
  s.disk.answer = [](const IoRequest&) { return ScriptedDisk::kNever; };
  Transfer read = disk.read(at, block.bytes().first(kPage));
  EXPECT_FALSE(read.done());
  EXPECT_TRUE(says(message_of<IoError>([&] { read.wait(); }), "read of 4,096 bytes at 0: no answer for 0.02 s"));
  Transfer later = disk.write(at + 4096, block.bytes().subspan(kPage));
  EXPECT_THROW(later.wait(), IoError);
  EXPECT_EQ(s.disk.asked.size(), 1U);
}

TEST(DiskTier, ChecksumsFindAFlippedBit) {
  Scripted s({.checksums = true});
  DiskTier disk(s.options, s.seam);
  const Allocation block = filled_pages(4 * kPage, 1);
  const std::int64_t at = disk.reserve(4 * 4096);
  disk.write(at, block.bytes()).wait();
  disk.read(at, block.bytes()).wait();
  s.disk.files[0][2 * kPage + 77] ^= std::byte{16};
  const std::string text = message_of<IoError>([&] { disk.read(at, block.bytes()).wait(); });
  EXPECT_TRUE(says(text, s.folder.path().native() + ": read of 16,384 bytes at 0"));
  EXPECT_TRUE(says(text, "the page at 8,192"));
  disk.read(at, block.bytes().first(2 * kPage)).wait();
}

TEST(DiskTier, ChecksumsFindUnwrittenPlace) {
  Scripted s({.checksums = true});
  DiskTier disk(s.options, s.seam);
  const Allocation page = allocate_host(kPage);
  const std::int64_t at = disk.reserve(4096);
  EXPECT_THROW(disk.read(at, page.bytes()).wait(), IoError);
  disk.write(at, page.bytes()).wait();
  disk.read(at, page.bytes()).wait();
}

TEST(DiskTier, WithoutChecksumsNobodyLooks) {
  Scripted s;
  DiskTier disk(s.options, s.seam);
  const Allocation page = filled_pages(kPage, 1);
  const std::int64_t at = disk.reserve(4096);
  disk.write(at, page.bytes()).wait();
  s.disk.files[0][5] ^= std::byte{1};
  disk.read(at, page.bytes()).wait();
}

// ---- construction -------------------------------------------------------------------------------------------------

TEST(DiskTier, UnmetOptionsAreUserErrors) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(message_of<ConfigError>([] { DiskTier({.bytes = kMiB}); }), "zero.disk = []"));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { DiskTier({.paths = {folder.path()}}); }), "zero.disk_memory"));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { DiskTier({.paths = {folder / "absent"}, .bytes = kMiB}); }),
                   "no such folder"));
  EXPECT_TRUE(says(
      message_of<ConfigError>([&] { DiskTier({.paths = {folder.path()}, .bytes = std::int64_t{1} << 60}); }), "free"));
  EXPECT_EQ(folder.num_files(), 0U);
}

// Every folder must have room, otherwise no file is made.
TEST(DiskTier, NoRoomMakesNoFile) {
  const TemporaryFolder folder;
  class Counting : public FileCalls {
   public:
    mutable int num_opened = 0;
    int open(const std::string& path, int flags) const override { return ++num_opened, FileCalls::open(path, flags); }
  } calls;
  const DiskSeam seam{.files = &calls};
  EXPECT_THROW(DiskTier({.paths = {folder.path(), folder / "absent"}, .bytes = kMiB}, seam), ConfigError);
  EXPECT_EQ(calls.num_opened, 0);
}

TEST(DiskTier, FullDiskShowsAtOpen) {
  const TemporaryFolder folder;
  FailingCalls calls;
  calls.on_preallocate = -ENOSPC;
  EXPECT_TRUE(says(message_of<IoError>([&] { DiskTier({.paths = {folder.path()}, .bytes = kMiB}, {.files = &calls}); }),
                   "No space left on device"));
  EXPECT_EQ(folder.num_files(), 0U);
}

class ForbiddenUring : public UringCalls {
 public:
  int set_up(unsigned, io_uring&) const override { return -EPERM; }
};

TEST(DiskTier, ThreadsServeWithoutIoUring) {
  const TemporaryFolder folder;
  const ForbiddenUring calls;
  DiskTier disk({.paths = {folder.path()}, .bytes = kMiB, .queue_depth = 2}, {.uring = &calls});
  EXPECT_TRUE(says(disk.describe(), "threads"));
  const Allocation page = filled_pages(kPage, 1);
  const std::int64_t at = disk.reserve(4096);
  disk.write(at, page.bytes()).wait();
  disk.read(at, page.bytes()).wait();
}

// The system forbids io_uring, and the options demand it.
TEST(DiskTier, DemandedIoUringIsUserError) {
  const TemporaryFolder folder;
  const ForbiddenUring calls;
  const std::string text = message_of<ConfigError>(
      [&] { DiskTier({.paths = {folder.path()}, .bytes = kMiB, .engine = DiskEngine::kUring}, {.uring = &calls}); });
  EXPECT_TRUE(says(text, "Operation not permitted"));
}

TEST(DiskTier, MemoryFileSystemUsesPageCache) {
  if (FileCalls::kernel().try_folder("/dev/shm") != 0) GTEST_SKIP() << "there is no /dev/shm to write to";
  DiskTier disk({.paths = {"/dev/shm"}, .bytes = kMiB, .queue_depth = 2});
  EXPECT_TRUE(says(disk.describe(), "buffered, 1 path"));
  const Allocation page = filled_pages(kPage, 1);
  const Allocation back = allocate_host(kPage);
  const std::int64_t at = disk.reserve(4096);
  disk.write(at, page.bytes()).wait();
  disk.read(at, back.bytes()).wait();
  EXPECT_TRUE(same_bytes(page.bytes(), back.bytes()));
}

TEST(DiskTier, TimelineShowsStripesAndWaits) {
  const TemporaryFolder folder;
  Timeline timeline;
  timeline.start();
  DiskTier disk({.paths = {folder.path()}, .bytes = 8 * kMiB, .timeline = &timeline});
  const Allocation block = filled_pages(static_cast<std::size_t>(3 * kMiB), 1);
  const std::int64_t at = disk.reserve(3 * kMiB);
  disk.write(at, block.bytes(), 2).wait();
  disk.read(at, block.bytes(), 7).wait();
  std::array<std::int64_t, kNumActivities> bytes{};
  double waited = 0;
  for (const TimelineSpan& span : timeline.spans()) {
    bytes[static_cast<std::size_t>(span.activity)] += span.bytes;
    if (span.activity == Activity::kWaitDisk) waited += span.end - span.begin;
    const bool moves = span.activity == Activity::kDiskWrite || span.activity == Activity::kDiskRead;
    EXPECT_TRUE(!moves || span.unit == (span.activity == Activity::kDiskWrite ? 2 : 7));
  }
  EXPECT_EQ(bytes[static_cast<std::size_t>(Activity::kDiskWrite)], disk.traffic().written_bytes);
  EXPECT_EQ(bytes[static_cast<std::size_t>(Activity::kDiskRead)], disk.traffic().read_bytes);
  EXPECT_GE(waited + 1e-6, disk.traffic().waited_seconds);
}

TEST(DiskTier, FullQueueCountsAsWaiting) {
  const TemporaryFolder folder;
  DiskTier disk({.paths = {folder.path()}, .bytes = 8 * kMiB, .queue_depth = 1});
  const Allocation block = filled_pages(static_cast<std::size_t>(2 * kMiB), 1);
  Transfer write = disk.write(disk.reserve(2 * kMiB), block.bytes());
  EXPECT_GT(disk.traffic().waited_seconds, 0) << "the second stripe waited for the first";
  write.wait();
}

// The kernel's own errors, through the calls of the threads.
TEST(DiskTier, FailedThreadTransferIsIoError) {
  const TemporaryFolder folder;
  FailingCalls calls;
  DiskTier disk({.paths = {folder.path()}, .bytes = kMiB, .engine = DiskEngine::kThreads, .queue_depth = 2},
                {.files = &calls});
  const Allocation page = filled_pages(kPage, 1);
  const std::int64_t at = disk.reserve(4096);
  calls.on_write = -EIO;
  EXPECT_TRUE(says(message_of<IoError>([&] { disk.write(at, page.bytes()).wait(); }), "Input/output error"));
  calls.on_write = 0;
  disk.write(at, page.bytes()).wait();
  calls.on_read = -EIO;
  EXPECT_TRUE(says(message_of<IoError>([&] { disk.read(at, page.bytes()).wait(); }), "read of 4,096 bytes"));
}

}  // namespace
}  // namespace zero
