#include "zero/base/process/parallel.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <limits>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <signal.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

using Block = std::pair<std::int64_t, std::int64_t>;

std::vector<Block> blocks_of(ThreadTeam& team, std::int64_t begin, std::int64_t end, std::int64_t grain) {
  std::mutex mutex;
  std::vector<Block> blocks;
  team.for_range(begin, end, grain, [&](std::int64_t from, std::int64_t to) {
    const std::lock_guard lock(mutex);
    blocks.emplace_back(from, to);
  });
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

TEST(ThreadTeam, CutsDependOnRangeAndGrain) {
  ThreadTeam one(1);
  ThreadTeam three(3);
  const std::vector<Block> expected{{5, 9}, {9, 13}, {13, 15}};
  EXPECT_EQ(blocks_of(one, 5, 15, 4), expected);
  EXPECT_EQ(blocks_of(three, 5, 15, 4), expected);
}

RC_GTEST_PROP(ThreadTeam, EveryElementIsVisitedOnce, ()) {
  ThreadTeam team(*rc::gen::inRange(1, 5));
  const auto numel = *rc::gen::inRange<std::int64_t>(0, 2000);
  const auto grain = *rc::gen::inRange<std::int64_t>(1, 300);
  std::vector<int> visits(static_cast<std::size_t>(numel));  // not atomic, so TSan reports a second visitor as a race
  team.for_range(0, numel, grain, [&](std::int64_t from, std::int64_t to) {
    for (auto i = from; i < to; ++i) ++visits[static_cast<std::size_t>(i)];
  });
  RC_ASSERT(std::count(visits.begin(), visits.end(), 1) == numel);
}

TEST(ThreadTeam, AnEmptyRangeCallsNothing) {
  ThreadTeam team(2);
  EXPECT_TRUE(blocks_of(team, 7, 7, 1).empty());
  EXPECT_TRUE(blocks_of(team, 7, 3, 1).empty());
}

TEST(ThreadTeam, ReachesTheEndOf64Bits) {
  ThreadTeam team(2);
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(blocks_of(team, kMax - 3, kMax, kMax), (std::vector<Block>{{kMax - 3, kMax}}));
}

TEST(ThreadTeam, ThreadsWorkAtTheSameTime) {
  ThreadTeam team(3);
  std::latch all(3);  // opens only if three blocks run at the same time
  std::mutex mutex;
  std::set<std::thread::id> ids;
  team.for_range(0, 3, 1, [&](std::int64_t, std::int64_t) {
    all.arrive_and_wait();
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_TRUE(ids.contains(std::this_thread::get_id())) << "the caller works too";
}

TEST(ThreadTeam, TeamOfOneUsesCallersThread) {
  ThreadTeam team(1);
  EXPECT_EQ(team.size(), 1);
  team.for_range(0, 10, 1, [me = std::this_thread::get_id()](std::int64_t, std::int64_t) {
    EXPECT_EQ(std::this_thread::get_id(), me);
  });
}

TEST(ThreadTeam, ManyLoopsSeeEarlierWrites) {
  ThreadTeam team(4);
  std::vector<std::int64_t> values(64);
  for (int round = 0; round < 500; ++round) {
    team.for_range(0, 64, 5, [&](std::int64_t from, std::int64_t to) {
      for (auto i = from; i < to; ++i) values[static_cast<std::size_t>(i)] += i;
    });
  }
  for (std::int64_t i = 0; i < 64; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], 500 * i);
}

TEST(ThreadTeam, RethrowsAndGoesOn) {
  for (const int size : {1, 3}) {
    ThreadTeam team(size);
    std::atomic<int> begun = 0;
    EXPECT_THROW(team.for_range(0, 1000, 1,
                                [&](std::int64_t, std::int64_t) {
                                  ++begun;
                                  throw std::range_error("block");
                                }),
                 std::range_error);
    EXPECT_LE(begun, size) << "blocks that have not begun are skipped";
    EXPECT_EQ(blocks_of(team, 0, 4, 2).size(), 2U);
  }
}

TEST(ThreadTeam, NestedLoopIsABug) {
  ThreadTeam team(2);
  EXPECT_THROW(team.for_range(0, 4, 1, [&](std::int64_t, std::int64_t) { team.for_range(0, 2, 1, [](auto, auto) {}); }),
               InternalError);
  EXPECT_THROW(team.for_range(0, 1, 0, [](auto, auto) {}), InternalError);
  EXPECT_THROW(ThreadTeam(0), InternalError);
}

TEST(ThreadTeam, WorkersTakeNoSignals) {
  ThreadTeam team(2);
  std::latch both(2);
  team.for_range(0, 2, 1, [&, me = std::this_thread::get_id()](std::int64_t, std::int64_t) {
    both.arrive_and_wait();
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    EXPECT_EQ(sigismember(&blocked, SIGTERM), std::this_thread::get_id() == me ? 0 : 1);
  });
}

}  // namespace
}  // namespace zero
