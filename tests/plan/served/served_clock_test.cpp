#include "zero/plan/served/served_clock.h"

#include <limits>

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr double kP = 1e6;  // elements
const ClockBytes kOfModel{.pushed = 4 * kP, .pulled = 4 * kP, .messages = 5};

SyncPlan sync_of(SyncMode mode, int servers, int staleness = 0, int quorum = 0) {
  return {.mode = mode, .servers = servers, .staleness = staleness, .quorum = quorum};
}

double seconds(const SyncPlan& sync, const Cluster& cluster, double computation = 1) {
  return clock_seconds(sync, cluster, computation, traffic_of(sync, kOfModel, cluster));
}

// The formulas of docs/distributed/parameter_server.md: in a clock a worker sends 4P in each direction, and a server 4P
// W/S.
TEST(ServedClock, CountsWhatTheFormulasSay) {
  for (const int servers : {1, 2}) {
    const Cluster cluster{.hosts = 1, .ranks = 8};
    const ServedTraffic traffic = traffic_of(sync_of(SyncMode::kAsync, servers), kOfModel, cluster);
    EXPECT_DOUBLE_EQ(traffic.own_push.within, 4 * kP);
    EXPECT_DOUBLE_EQ(traffic.push.within, 4 * kP * (8 - servers) / servers);
    EXPECT_DOUBLE_EQ(traffic.pull.within, traffic.push.within);
    EXPECT_EQ(traffic.total().leaving, 0);
    EXPECT_EQ(traffic.total().delay, 0);
  }
}

TEST(ServedClock, CountsOnlyTrafficBetweenMachines) {
  const Cluster cluster{.hosts = 2, .ranks = 4, .network = 1e9, .latency = 1e-3};
  const ServedTraffic one = traffic_of(sync_of(SyncMode::kAsync, 1), kOfModel, cluster);
  EXPECT_DOUBLE_EQ(one.push.leaving, 4 * (4 * kP)) << "from the four workers of the second machine";
  EXPECT_DOUBLE_EQ(one.own_push.leaving, 4 * (4 * kP));
  EXPECT_DOUBLE_EQ(one.push.within, 3 * (4 * kP)) << "the server with the three workers beside it";
  EXPECT_DOUBLE_EQ(one.pull.delay, 5e-3);
  // Servers fill the first machine, so all bytes leave their machine.
  const ServedTraffic apart = traffic_of(sync_of(SyncMode::kAsync, 4), kOfModel, cluster);
  EXPECT_DOUBLE_EQ(apart.push.leaving, 4 * (4 * kP));
  EXPECT_EQ(apart.push.within, 0);
}

TEST(ServedClock, EqualWorkersAddComputationAndExchange) {
  const Cluster cluster{.hosts = 1, .ranks = 5, .within = 1e8};
  EXPECT_NEAR(seconds(sync_of(SyncMode::kSync, 1), cluster), 1 + 2 * 0.16, 1e-9) << "16 MB to the server, and back";
  EXPECT_NEAR(seconds(sync_of(SyncMode::kStale, 1, 1), cluster), 1 + 2 * 0.04, 1e-9) << "each waits for its own";
  EXPECT_NEAR(seconds(sync_of(SyncMode::kStale, 1, 0), cluster), 1 + 2 * 0.16, 1e-9) << "staleness 0 equals sync";
}

TEST(ServedClock, ServerLinkBoundsClock) {
  const Cluster cluster{.hosts = 1, .ranks = 101, .within = 1e8};
  EXPECT_NEAR(seconds(sync_of(SyncMode::kAsync, 1, 4), cluster), 4, 1e-9) << "100 pushes of 4 MB";
  EXPECT_NEAR(seconds(sync_of(SyncMode::kAsync, 50, 4), cluster), 1 + 2 * 0.04, 1e-9);
}

// Two workers, with 40 ms for a push, 40 ms for a pull and 50 ms of computation. A single worker uses each direction 4
// / 13 of its time. So it meets the other worker with that probability: 40 ms become 40 x 17 / 13.
TEST(ServedClock, StaleWorkersShareLinkByChance) {
  const Cluster cluster{.hosts = 2, .ranks = 2, .network = 1e8};
  const double met = 0.05 + 2 * 0.04 * 17 / 13;
  EXPECT_NEAR(seconds(sync_of(SyncMode::kStale, 1, 1), cluster, 0.05), met, 1e-9);
  EXPECT_NEAR(seconds(sync_of(SyncMode::kAsync, 1, 4), cluster, 0.05), met, 1e-9);
  EXPECT_NEAR(seconds(sync_of(SyncMode::kSync, 1), cluster, 0.05), 0.05 + 4 * 0.04, 1e-9) << "in sync always";
}

TEST(ServedClock, LongComputationAvoidsCollisions) {
  const Cluster cluster{.hosts = 2, .ranks = 8, .network = 1e8};
  EXPECT_NEAR(seconds(sync_of(SyncMode::kAsync, 1, 4), cluster, 100), 100.08, 0.01);
}

// The slowest worker sets the pace, except with a quorum.
TEST(ServedClock, SlowestWorkerSetsPace) {
  const Cluster cluster{.hosts = 1, .ranks = 5, .speeds = {1, 1, 1, 1, 0.25}};
  EXPECT_NEAR(seconds(sync_of(SyncMode::kSync, 1), cluster), 4, 1e-9);
  EXPECT_NEAR(seconds(sync_of(SyncMode::kStale, 1, 3), cluster), 4, 0.1);
  EXPECT_NEAR(seconds(sync_of(SyncMode::kAsync, 1, 3), cluster), 4, 0.1);
  EXPECT_NEAR(seconds(sync_of(SyncMode::kSync, 1, 0, 3), cluster), 1, 0.01);
}

TEST(ServedClock, StalenessAndQuorumHideVariation) {
  const Cluster cluster{.hosts = 1, .ranks = 17, .jitter = 0.5};
  const double together = seconds(sync_of(SyncMode::kSync, 1), cluster);
  EXPECT_NEAR(together, seconds_of_all(1, 16, cluster), 0.1) << "the last of sixteen";
  const double once = seconds(sync_of(SyncMode::kStale, 1, 1), cluster);
  const double more = seconds(sync_of(SyncMode::kStale, 1, 7), cluster);
  EXPECT_LT(once, 0.8 * together);
  EXPECT_LT(more, once);
  EXPECT_GT(more, 1.5 * 0.98) << "a worker's mean time";
  const double quorum = seconds(sync_of(SyncMode::kSync, 1, 0, 12), cluster);
  EXPECT_LT(quorum, 0.8 * together);
}

// No worker waits. A bound beyond the simulated clocks takes no memory.
TEST(ServedClock, AnyLeadIsPossible) {
  const Cluster cluster{.hosts = 1, .ranks = 9, .jitter = 0.2};
  EXPECT_EQ(seconds(sync_of(SyncMode::kAsync, 1, std::numeric_limits<int>::max()), cluster),
            seconds(sync_of(SyncMode::kAsync, 1, 1000), cluster));
}

TEST(ServedClock, SameQuestionHasSameAnswer) {
  const Cluster cluster{.hosts = 1, .ranks = 9, .jitter = 0.2};
  const SyncPlan sync = sync_of(SyncMode::kAsync, 1, 2);
  EXPECT_EQ(seconds(sync, cluster), seconds(sync, cluster));
}

TEST(ServedClock, OfTenThousandRanksIsComputed) {
  const Cluster cluster{.hosts = 1250, .ranks = 8, .network = 1.25e10, .within = 1e11, .jitter = 0.1};
  EXPECT_GT(seconds(sync_of(SyncMode::kAsync, 100, 4), cluster), 1);
  EXPECT_GT(seconds(sync_of(SyncMode::kSync, 100, 0, 9000), cluster), 1);
}

TEST(ServedClock, LargestServerIsBusiestLink) {
  const Cluster cluster{.hosts = 4, .ranks = 1, .network = 1e9};
  const SyncPlan sync{.servers = 2};
  const ServedTraffic even = traffic_of(sync, {.pushed = 8e6, .pulled = 8e6, .messages = 1}, cluster);
  const ServedTraffic uneven =
      traffic_of(sync, {.pushed = 8e6, .pulled = 8e6, .messages = 1, .largest_part = 0.75}, cluster);
  EXPECT_DOUBLE_EQ(even.push.leaving, 8e6) << "from one worker, or from two workers to one server";
  EXPECT_DOUBLE_EQ(uneven.push.leaving, 12e6) << "from two workers to the server with the largest part";
  EXPECT_DOUBLE_EQ(uneven.own_push.leaving, even.own_push.leaving) << "a worker sends as much in all";
}

}  // namespace
}  // namespace zero
