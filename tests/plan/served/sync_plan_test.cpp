#include "zero/plan/served/sync_plan.h"

#include <cmath>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string refusal(const SyncPlan& plan, int world) {
  return message_of<ConfigError>([&] { require_possible(plan, world); });
}

TEST(SyncPlan, TheFirstRanksAreServers) {
  const SyncPlan plan{.mode = SyncMode::kAsync, .servers = 2};
  EXPECT_TRUE(plan.is_server(1));
  EXPECT_FALSE(plan.is_server(2));
  EXPECT_EQ(plan.worker_of(4), 2);
  EXPECT_EQ(plan.rank_of_worker(2), 4);
  EXPECT_EQ(plan.num_workers(5), 3);
}

TEST(SyncPlan, EveryWorldRunsWithoutServers) {
  EXPECT_NO_THROW(require_possible({}, 1));
  EXPECT_NO_THROW(require_possible({}, 64));
}

TEST(SyncPlan, KeepsStalenessPlusOneVersions) {
  EXPECT_EQ((SyncPlan{.mode = SyncMode::kStale, .servers = 1, .staleness = 3}.num_versions()), 4);
  EXPECT_EQ((SyncPlan{.mode = SyncMode::kAsync, .servers = 1, .staleness = 3}.num_versions()), 1);
}

TEST(SyncPlan, LeavesRankForWorker) {
  EXPECT_EQ(refusal({.servers = 2}, 2),
            "sync.servers = 2: no rank is left for a worker: the run has 2 ranks\n  use at most 1, or more ranks (-n)");
  EXPECT_EQ(refusal({.mode = SyncMode::kAsync, .servers = 1}, 1),
            "sync.servers = 1: no rank is left for a worker: the run has 1 rank\n  start more ranks (-n), or use "
            "sync.mode sync without servers");
}

TEST(SyncPlan, StaleAndAsyncNeedAServer) {
  EXPECT_EQ(refusal({.mode = SyncMode::kStale}, 4),
            "sync.mode = stale: it needs a server, and sync.servers = 0\n  set sync.servers to 1 or more");
}

TEST(SyncPlan, StalenessNeedsStaleOrAsync) {
  EXPECT_EQ(
      refusal({.servers = 1, .staleness = 2}, 4),
      "sync.staleness = 2: with sync.mode sync no gradient is stale\n  leave it out, or use sync.mode stale or async");
  EXPECT_NO_THROW(require_possible({.mode = SyncMode::kStale, .servers = 1, .staleness = 2}, 4));
}

// In async mode servers keep no older versions, so any lead is possible.
TEST(SyncPlan, StaleVersionsAreLimited) {
  EXPECT_NO_THROW(require_possible({.mode = SyncMode::kStale, .servers = 1, .staleness = 1000}, 4));
  EXPECT_EQ(refusal({.mode = SyncMode::kStale, .servers = 1, .staleness = 1001}, 4),
            "sync.staleness = 1001: servers keep that many older versions of the weights\n  use at most 1000");
  EXPECT_NO_THROW(
      require_possible({.mode = SyncMode::kAsync, .servers = 1, .staleness = std::numeric_limits<int>::max()}, 4));
}

TEST(SyncPlan, QuorumIsAtMostTheWorkers) {
  EXPECT_EQ(refusal({.servers = 1, .quorum = 4}, 4),
            "sync.quorum = 4: there are 3 workers\n  use 1 to 3, or 0 for all");
  EXPECT_EQ(refusal({.mode = SyncMode::kStale, .servers = 1, .quorum = 1}, 4),
            "sync.quorum = 1: only servers with sync.mode sync continue without some gradients\n  leave it out, or use "
            "sync.mode sync with sync.servers");
  EXPECT_NO_THROW(require_possible({.servers = 1, .quorum = 3}, 4));
}

TEST(SyncPlan, SingleWorkersOldGradientCountsLess) {
  EXPECT_DOUBLE_EQ((SyncPlan{.mode = SyncMode::kAsync, .servers = 1}.lr_of(0.8, 3)), 0.2);
  for (const auto& [exponent, lr] : {std::pair{0.0, 0.8}, {0.5, 0.4}, {1.0, 0.2}, {2.0, 0.05}}) {
    const SyncPlan plan{.mode = SyncMode::kAsync, .servers = 1, .stale_lr = exponent};
    EXPECT_DOUBLE_EQ(plan.lr_of(0.8, 3), lr) << exponent;
    EXPECT_DOUBLE_EQ(plan.lr_of(0.8, 0), 0.8) << exponent << ", a new one";
  }
  for (const SyncMode mode : {SyncMode::kSync, SyncMode::kStale})
    EXPECT_EQ((SyncPlan{.mode = mode, .servers = 1}.lr_of(0.8, 3)), 0.8) << name_of(mode);
}

TEST(SyncPlan, NumbersOutOfRangeAreRefused) {
  const auto refused = [](const SyncPlan& plan, const std::string& key) {
    EXPECT_TRUE(says(refusal(plan, 2), key + ": must be a finite number, 0 or more\n  use ")) << refusal(plan, 2);
  };
  refused({.servers = -1}, "sync.servers = -1");
  refused({.mode = SyncMode::kAsync, .servers = 1, .staleness = -2}, "sync.staleness = -2");
  for (const auto& [bad, text] : {std::pair{-1.0, "-1"}, {std::nan(""), "nan"}, {kInfinity, "inf"}, {1e39, "1e+39"}}) {
    refused({.mode = SyncMode::kAsync, .servers = 1, .stale_lr = bad}, std::string("sync.stale_lr = ") + text);
    refused({.mode = SyncMode::kAsync, .servers = 1, .compensation = bad}, std::string("sync.compensation = ") + text);
  }
}

TEST(SyncPlan, OnlySingleGradientsAreCompensated) {
  EXPECT_NO_THROW(require_possible({.mode = SyncMode::kAsync, .servers = 1, .compensation = 0.04}, 2));
  EXPECT_EQ(
      refusal({.mode = SyncMode::kStale, .servers = 1, .compensation = 0.5}, 2),
      "sync.compensation = 0.5: only sync.mode async applies the gradients of single workers\n  leave it out, or use "
      "sync.mode async");
}

}  // namespace
}  // namespace zero
