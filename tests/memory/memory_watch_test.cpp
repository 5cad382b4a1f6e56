#include "zero/memory/memory_watch.h"

#include <atomic>
#include <stdexcept>

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr std::chrono::milliseconds kNever{0};

TEST(MemoryWatch, WithoutAThreadReadsWhenAsked) {
  std::int64_t free_bytes = 7;
  MemoryWatch monitor([&] { return MemoryReading{.free_bytes = free_bytes, .pressure = 3}; }, kNever);
  EXPECT_EQ(monitor.take_worst().free_bytes, 7);
  free_bytes = 9;
  EXPECT_EQ(monitor.take_worst().free_bytes, 9) << "a taken reading does not count again";
  EXPECT_EQ(monitor.take_worst().pressure, 3);
}

TEST(MemoryWatch, ThreadSeesUsageBetweenCalls) {
  std::atomic<int> num_readings{0};
  MemoryWatch monitor(
      [&] {
        const int now = ++num_readings;
        return MemoryReading{.free_bytes = now == 3 ? 5 : 100, .pressure = now == 2 ? 40.0 : 0.0};
      },
      std::chrono::milliseconds(1));
  while (num_readings < 4) std::this_thread::yield();
  const MemoryReading worst = monitor.take_worst();
  EXPECT_EQ(worst.free_bytes, 5);
  EXPECT_EQ(worst.pressure, 40);
}

// The monitoring thread looks only once, as on a very busy machine.
TEST(MemoryWatch, FreeNowCountsIfThreadMissed) {
  std::atomic<std::int64_t> free_bytes{100};
  MemoryWatch monitor([&] { return MemoryReading{.free_bytes = free_bytes}; }, std::chrono::hours(1));
  monitor.look_now();
  free_bytes = 50;
  EXPECT_EQ(monitor.take_worst().free_bytes, 50) << "take_worst() also looks now";
  free_bytes = 10;
  monitor.look_now();
  free_bytes = 90;
  EXPECT_EQ(monitor.take_worst().free_bytes, 10);
  EXPECT_EQ(monitor.take_worst().free_bytes, 90);
}

TEST(MemoryWatch, FailedReadingIsReportedOnce) {
  bool fails = true;
  MemoryWatch monitor(
      [&]() -> MemoryReading {
        if (fails) throw std::runtime_error("no /proc");
        return {.free_bytes = 1};
      },
      kNever);
  EXPECT_THROW(monitor.take_worst(), std::runtime_error);
  fails = false;
  EXPECT_EQ(monitor.take_worst().free_bytes, 1);
}

TEST(MemoryWatch, ThisMachineHasSomeMemoryLeft) {
  const MemoryReading now = read_memory();
  EXPECT_GT(now.free_bytes, 0);
  EXPECT_LT(now.free_bytes, std::int64_t{1} << 50);
  EXPECT_GE(now.pressure, 0);
}

}  // namespace
}  // namespace zero
