// The virtual time of a clock if workers stall. Only the order of the servers' actions matters here. In a measurement
// (benchmarks/stalls.py) processes also share cores.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "zero/plan/served/push_order.h"

namespace zero {
namespace {

struct Stall {
  double begin;
  int worker;
};

constexpr double kStall = 4, kEvery = 20;  // in mean times of a gradient

// One random worker stalls at a time.
std::vector<Stall> some_stalls(int workers, double until) {
  std::mt19937 drawn(7);
  std::vector<Stall> stalls;
  for (double begin = kEvery; begin < until; begin += kEvery)
    stalls.push_back({begin, static_cast<int>(drawn() % static_cast<unsigned>(workers))});
  return stalls;
}

// The time at which a worker has a gradient that it begins at `begin` and that takes `work`.
double done(double begin, double work, int worker, const std::vector<Stall>& stalls) {
  for (const Stall& stall : stalls) {
    if (stall.worker != worker || stall.begin + kStall <= begin) continue;
    if (stall.begin >= begin + work) break;
    work -= std::max(0.0, stall.begin - begin);
    begin = stall.begin + kStall;
  }
  return begin + work;
}

// The mean time of a clock. A gradient takes 0.9 to 1.1.
double clock_time(const SyncPlan& plan, int workers, const std::vector<Stall>& stalls) {
  constexpr int kClocks = 2000;
  std::mt19937 drawn(1);
  std::uniform_real_distribution<double> work(0.9, 1.1);
  PushOrder order(plan, workers);
  using Push = std::tuple<double, int, std::int64_t>;  // time, worker, clock
  std::priority_queue<Push, std::vector<Push>, std::greater<>> pushes;
  double now = 0;
  while (order.version() < kClocks) {
    while (const auto action = order.next()) {
      if (action->kind == PushAction::Kind::kAnswer)
        pushes.emplace(done(now, work(drawn), action->workers[0], stalls), action->workers[0], action->clock);
    }
    const auto [time, worker, clock] = pushes.top();
    pushes.pop();
    now = time;
    order.pushed(worker, clock);
  }
  return now / static_cast<double>(order.version());
}

// A quorum of all workers but one hides nine tenths of the cost of stalls.
TEST(StalledWorkers, QuorumHidesNineTenthsOfStalls) {
  for (const int workers : {2, 3, 4, 8, 32}) {
    const auto stalls = some_stalls(workers, 5e3);
    const SyncPlan all{.servers = 1}, quorum{.servers = 1, .quorum = workers - 1};
    const double cost_all = clock_time(all, workers, stalls) - clock_time(all, workers, {});
    const double cost_quorum = clock_time(quorum, workers, stalls) - clock_time(quorum, workers, {});
    EXPECT_GT(cost_all, 0.8 * kStall / kEvery) << workers;
    EXPECT_LT(cost_quorum, 0.1 * cost_all) << workers;
  }
}

// A stall lasts four clocks, and staleness 1 hides one of them.
TEST(StalledWorkers, StalenessOneHidesOneClock) {
  const auto stalls = some_stalls(3, 5e3);
  const SyncPlan all{.servers = 1}, stale{.mode = SyncMode::kStale, .servers = 1, .staleness = 1};
  const double cost_all = clock_time(all, 3, stalls) - clock_time(all, 3, {});
  const double cost_stale = clock_time(stale, 3, stalls) - clock_time(stale, 3, {});
  EXPECT_LT(cost_stale, cost_all);
  EXPECT_GT(cost_stale, 0.5 * cost_all) << "staleness 1 hides one of four clocks";
}

}  // namespace
}  // namespace zero
