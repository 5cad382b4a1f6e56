#include "tests/support/device/recorded_device.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/device/element_kernels.h"

#include "tests/support/expect_contains.h"

namespace zero {
namespace {

constexpr std::size_t kBytes = 256;

struct PlusOne {
  float* data;
  std::int64_t numel;
};
void plus_one(const PlusOne& a) {
  for (std::int64_t i = 0; i < a.numel; ++i) a.data[i] += 1.0F;
}
constexpr Kernel kPlusOne = kernel_of<PlusOne, &plus_one>("plus_one");

std::span<float> floats(std::span<std::byte> bytes) {
  return {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)};
}
void run_plus_one(Device& device, Lane lane, std::span<std::byte> bytes) {
  run(device, lane, kPlusOne, PlusOne{floats(bytes).data(), std::ssize(floats(bytes))}, {changes(bytes)});
}

template <typename Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "no error";
}

TEST(RecordedDevice, OrderedWorkRunsAtOnce) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  device.copy(Lane::kUp, block.bytes(), tile.bytes());
  follow(device, Lane::kUpdate, Lane::kUp);
  run_plus_one(device, Lane::kUpdate, block.bytes());
  follow(device, Lane::kDown, Lane::kUpdate);
  device.copy(Lane::kDown, tile.bytes(), block.bytes());
  device.join(device.mark(Lane::kDown));
  EXPECT_EQ(std::ranges::count(floats(tile.bytes()), 1.0F), 64);
  EXPECT_TRUE(device.races().empty());
}

TEST(RecordedDevice, RaceNamesOperationsLanesAndBytes) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  device.copy(Lane::kUp, block.bytes(), tile.bytes());
  const std::string text = error_of([&] { run_plus_one(device, Lane::kUpdate, block.bytes().subspan(64)); });
  EXPECT_EQ(text,
            "a race on bytes 64 to 256 of device block 1:\n"
            "  operation 1 (copy) of lane up writes them\n"
            "  operation 2 (kernel plus_one) of lane update changes them\n"
            "  lane update has not waited for lane up");
  device.join(device.mark(Lane::kUp));
}

// The text says how far a lane has waited for the other.
TEST(RecordedDevice, RaceNamesTheLastWait) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes);
  device.fill(Lane::kUp, block.bytes().first(8), std::byte{1});
  follow(device, Lane::kUpdate, Lane::kUp);
  device.fill(Lane::kUp, block.bytes().last(8), std::byte{1});
  EXPECT_CONTAINS(error_of([&] { run_plus_one(device, Lane::kUpdate, block.bytes()); }),
                  "lane update has waited for lane up as far as operation 1");
  device.join(device.mark(Lane::kUp));
}

TEST(RecordedDevice, LanesMayReadSameBytes) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes), tiles = device.allocate_pinned(2 * kBytes);
  device.copy(Lane::kDown, tiles.bytes().first(kBytes), block.bytes());
  device.copy(Lane::kGather, tiles.bytes().last(kBytes), block.bytes());
  device.join(device.mark(Lane::kDown));
  device.join(device.mark(Lane::kGather));
}

TEST(RecordedDevice, FindsWritesDuringReads) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  device.copy(Lane::kDown, tile.bytes(), block.bytes());
  EXPECT_CONTAINS(error_of([&] { device.fill(Lane::kUpdate, block.bytes().last(1), std::byte{1}); }),
                  "a race on bytes 255 to 256 of device block 1");
  device.join(device.mark(Lane::kDown));
}

TEST(RecordedDevice, MarkOrdersOnlyEarlierWork) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes);
  const Mark early = device.mark(Lane::kUp);
  device.fill(Lane::kUp, block.bytes(), std::byte{1});
  device.wait(Lane::kUpdate, early);
  EXPECT_THROW(run_plus_one(device, Lane::kUpdate, block.bytes()), InternalError);
  device.join(device.mark(Lane::kUp));
}

TEST(RecordedDevice, LanesAndHostPassOnOrder) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes);
  device.fill(Lane::kUp, block.bytes(), std::byte{1});
  follow(device, Lane::kGather, Lane::kUp);
  follow(device, Lane::kCompute, Lane::kGather);
  device.fill(Lane::kCompute, block.bytes(), std::byte{2});
  device.join(device.mark(Lane::kCompute));  // later host operations are also after that work
  device.fill(Lane::kDown, block.bytes(), std::byte{3});
  device.join(device.mark(Lane::kDown));
  EXPECT_TRUE(device.races().empty());
}

TEST(RecordedDevice, FindsEarlyHostPinnedAccess) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  const std::array written{writes(tile.bytes())}, read{reads(tile.bytes())};
  device.host_touches(written, "next tile");
  device.copy(Lane::kUp, block.bytes(), tile.bytes());
  device.host_touches(read, "sum of the tile");
  EXPECT_CONTAINS(error_of([&] { device.host_touches(written, "next tile"); }),
                  "operation 4 (next tile) of the host writes them");
  device.join(device.mark(Lane::kUp));
  device.host_touches(written, "next tile");
}

TEST(RecordedDevice, ForeignTouchesBelongToTheirLane) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes);
  const std::array read{reads(block.bytes())};
  device.touches(Lane::kCompute, read, "linear of h.0");
  EXPECT_EQ(block.bytes()[0], std::byte{0});  // readable until the next call
  EXPECT_CONTAINS(error_of([&] { device.fill(Lane::kGather, block.bytes(), std::byte{1}); }),
                  "(linear of h.0) of lane compute reads");
  device.join(device.mark(Lane::kCompute));
}

TEST(RecordedDevice, NextCallThrowsDestructorErrors) {
  RecordedDevice device;
  {
    const Allocation block = device.allocate(kBytes);
    device.fill(Lane::kUp, block.bytes(), std::byte{1});
  }
  EXPECT_CONTAINS(error_of([&] { device.join(device.mark(Lane::kUp)); }),
                  "operation 2 (memory is given back) of the host");
}

TEST(RecordedDevice, ForgetsMemoryThatIsGivenBack) {
  RecordedDevice device;
  for (int i = 0; i < 3; ++i) {  // the system reuses the same addresses
    const Allocation block = device.allocate(kBytes);
    device.fill(kAllLanes[static_cast<std::size_t>(i)], block.bytes(), std::byte{1});
    device.join(device.mark(kAllLanes[static_cast<std::size_t>(i)]));
  }
  EXPECT_TRUE(device.races().empty());
}

TEST(RecordedDevice, ListsAllRacesWhenAsked) {
  RecordedDevice device({.on_race = OnRace::kList});
  {
    const Allocation block = device.allocate(kBytes);
    device.fill(Lane::kUp, block.bytes().first(8), std::byte{1});
    device.fill(Lane::kDown, block.bytes().last(8), std::byte{1});
    device.fill(Lane::kCompute, block.bytes(), std::byte{1});
  }
  std::set<std::pair<std::uint64_t, std::uint64_t>> pairs;
  for (const Race& race : device.races()) pairs.insert({race.earlier, race.later});
  EXPECT_EQ(pairs, (std::set<std::pair<std::uint64_t, std::uint64_t>>{{1, 3}, {2, 3}, {1, 4}, {2, 4}, {3, 4}}));
}

TEST(RecordedDevice, RefusesForeignMemoryAndMarks) {
  RecordedDevice device, other;
  const Allocation block = device.allocate(kBytes);
  std::vector<std::byte> pageable(kBytes);
  EXPECT_CONTAINS(error_of([&] { device.copy(Lane::kUp, block.bytes(), pageable); }),
                  "which is neither device memory nor pinned memory of this device");
  EXPECT_CONTAINS(error_of([&] { device.wait(Lane::kUp, other.mark(Lane::kUp)); }), "a mark of another device");
  const std::array access{writes(block.bytes())};
  EXPECT_CONTAINS(error_of([&] { device.host_touches(access, "first values"); }), "(first values)");
}

TEST(RecordedDevice, EmptyMarksAreAlwaysDone) {
  RecordedDevice device;
  device.wait(Lane::kUp, Mark());
  device.join(Mark());
  EXPECT_TRUE(device.done(Mark()));
  EXPECT_TRUE(device.waits().empty());
}

TEST(RecordedDevice, PollingHostEventuallyFinishesLateWork) {
  RecordedDevice device({.late = 1});
  const Allocation block = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  device.fill(Lane::kDown, block.bytes(), std::byte{7});
  device.copy(Lane::kDown, tile.bytes(), block.bytes());
  const Mark mark = device.mark(Lane::kDown);
  EXPECT_FALSE(device.done(mark));
  EXPECT_EQ(tile.bytes()[0], std::byte{0});
  EXPECT_TRUE(device.done(mark));
  EXPECT_EQ(tile.bytes()[0], std::byte{7});
}

// Work on memory that is freed too early runs before the free.
TEST(RecordedDevice, LateWorkPrecedesEarlyRelease) {
  RecordedDevice device({.on_race = OnRace::kList, .late = 1});
  const Allocation tile = device.allocate_pinned(kBytes);
  {
    const Allocation block = device.allocate(kBytes);
    device.fill(Lane::kDown, block.bytes(), std::byte{7});
    device.copy(Lane::kDown, tile.bytes(), block.bytes());
  }
  EXPECT_EQ(tile.bytes()[0], std::byte{7});
  EXPECT_EQ(device.races().size(), 2U);
  device.join(device.mark(Lane::kDown));
}

// Kernels that do more than they declare.
struct Pair {
  std::byte* named;
  std::byte* unnamed;
};
void read_unnamed(const Pair& a) {
  *a.named = *a.unnamed;
}
void write_unnamed(const Pair& a) {
  *a.unnamed = std::byte{1};
}
constexpr Kernel kReadUnnamed = kernel_of<Pair, &read_unnamed>("read_unnamed");
constexpr Kernel kWriteUnnamed = kernel_of<Pair, &write_unnamed>("write_unnamed");

TEST(RecordedDevice, FarBehindWorkAwaitsTheHost) {
  for (const bool late : {false, true}) {
    RecordedDevice device({.late = late ? std::optional<std::uint64_t>(1) : std::nullopt, .far_behind = true});
    const Allocation block = device.allocate(64);
    device.fill(Lane::kUp, block.bytes(), std::byte{1});
    const Mark first = device.mark(Lane::kUp);
    device.fill(Lane::kUp, block.bytes(), std::byte{2});
    const Mark second = device.mark(Lane::kUp);
    EXPECT_FALSE(device.done(first));
    device.join(first);
    EXPECT_TRUE(device.done(first));
    EXPECT_FALSE(device.done(second));
    device.join(second);
    EXPECT_TRUE(device.done(first) && device.done(second));
  }
}

// Each operation takes one millisecond.
TEST(RecordedDevice, CountsMillisecondsBetweenTimedMarks) {
  RecordedDevice device;
  const Allocation memory = device.allocate(kBytes), other = device.allocate(kBytes);
  const Mark begin = device.timed_mark(Lane::kUp);
  run_plus_one(device, Lane::kUp, memory.bytes());
  run_plus_one(device, Lane::kUpdate, other.bytes());
  run_plus_one(device, Lane::kUp, memory.bytes());
  const Mark end = device.timed_mark(Lane::kUp), beside = device.timed_mark(Lane::kGather);
  EXPECT_NEAR(device.seconds_between(begin, end).value(), 3e-3, 1e-9);
  EXPECT_NEAR(device.seconds_between(end, beside).value(), 0, 1e-9);
  join_all(device);
}

TEST(RecordedDevice, TimesLateWorkWhenDone) {
  RecordedDevice device({.late = 5});
  const Allocation memory = device.allocate(kBytes);
  const Mark begin = device.timed_mark(Lane::kUp);
  run_plus_one(device, Lane::kUp, memory.bytes());
  const Mark before = device.timed_mark(Lane::kCompute);
  device.wait(Lane::kCompute, device.mark(Lane::kUp));
  const Mark after = device.timed_mark(Lane::kCompute);
  EXPECT_FALSE(device.seconds_between(before, after)) << "the mark is not done";
  device.join(after);
  EXPECT_NEAR(device.seconds_between(before, after).value(), 1e-3, 1e-9)
      << "the lane waited for the work of the other lane";
  EXPECT_NEAR(device.seconds_between(begin, after).value(), 1e-3, 1e-9);
}

TEST(RecordedDevice, TimesOrderNothing) {
  RecordedDevice device({.on_race = OnRace::kList});
  const Allocation memory = device.allocate(kBytes);
  const Mark begin = device.timed_mark(Lane::kUp);
  run_plus_one(device, Lane::kUp, memory.bytes());
  EXPECT_TRUE(device.seconds_between(begin, device.timed_mark(Lane::kUp)));
  run_plus_one(device, Lane::kCompute, memory.bytes());
  EXPECT_EQ(device.races().size(), 1U);
  join_all(device);
}

// The device also reports such writes.
TEST(RecordedDevice, UndoesWritesBesideNamedBytes) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  const Pair pair{block.data(), block.data() + 9};
  EXPECT_CONTAINS(error_of([&] { run(device, Lane::kUpdate, kWriteUnnamed, pair, {changes(block.bytes().first(8))}); }),
                  "operation 1 (kernel write_unnamed) of lane update wrote bytes 9 to 10 of device block 1, which it "
                  "does not name");
  device.copy(Lane::kUpdate, tile.bytes(), block.bytes());
  device.join(device.mark(Lane::kUpdate));
  EXPECT_EQ(tile.bytes()[9], std::byte{0});
}

TEST(RecordedDevice, UnnamedBytesReadAsNaN) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes), tile = device.allocate_pinned(kBytes);
  run(device, Lane::kUpdate, kReadUnnamed, Pair{block.data(), block.data() + 9}, {changes(block.bytes().first(8))});
  device.copy(Lane::kUpdate, tile.bytes(), block.bytes());
  device.join(device.mark(Lane::kUpdate));
  EXPECT_EQ(tile.bytes()[0], std::byte{0xFF});
  EXPECT_EQ(tile.bytes()[9], std::byte{0});
}

// Sanitizers have their own handler, which takes seconds to report the place.
template <typename Function>
void expect_fault(Function function) {
  const auto unhandled = [&] {
    std::signal(SIGSEGV, SIG_DFL);
    function();
  };
  EXPECT_EXIT(unhandled(), testing::KilledBySignal(SIGSEGV), "");
}

TEST(RecordedDeviceDeathTest, HostFaultsOnDeviceMemory) {
  RecordedDevice device;
  const Allocation block = device.allocate(kBytes);
  volatile std::byte* const data = block.data();
  const auto read = [&] { return static_cast<std::byte>(*data); };
  expect_fault([&] { *data = std::byte{1}; });
  expect_fault(read);
  const std::array access{reads(block.bytes())};
  device.touches(Lane::kCompute, access, "linear of h.0");
  EXPECT_EQ(read(), std::byte{0});
  expect_fault([&] { *data = std::byte{1}; });  // open for reads only
  EXPECT_TRUE(device.done(device.mark(Lane::kCompute)));
  expect_fault(read);
}

TEST(RecordedDeviceDeathTest, KernelFaultsOnUnnamedPages) {
  RecordedDevice device;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const Allocation block = device.allocate(3 * page), other = device.allocate(kBytes);
  const auto touch = [&](const Kernel& kernel, std::byte* unnamed) {
    run(device, Lane::kUpdate, kernel, Pair{block.data(), unnamed},
        {changes(block.bytes().first(8)), reads(other.bytes())});
  };
  expect_fault([&] { touch(kReadUnnamed, block.data() + 2 * page); });
  expect_fault([&] { touch(kWriteUnnamed, other.data()); });  // the kernel may only read it
  touch(kReadUnnamed, other.data());
  device.join(device.mark(Lane::kUpdate));
}

TEST(RecordedDeviceDeathTest, UnseenRaceEndsTheProcess) {
  const auto unseen = [] {
    RecordedDevice device({.on_race = OnRace::kList});
    const Allocation block = device.allocate(kBytes);
    device.fill(Lane::kUp, block.bytes(), std::byte{1});
  };
  EXPECT_DEATH(unseen(), "a race that nobody saw: a race on bytes 0 to 256 of device block 1");
  const auto outlived = [] {
    Allocation block;
    RecordedDevice device;
    block = device.allocate(kBytes);
  };
  EXPECT_DEATH(outlived(), "a recorded device ends before 1 of its blocks");
}

}  // namespace
}  // namespace zero
