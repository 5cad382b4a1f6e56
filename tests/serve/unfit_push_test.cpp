// Pushes that are not finite: which update each skips, and that it affects nothing else.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/serve/served_run.h"
#include "tests/support/environment_variable.h"
#include "tests/support/occurrences.h"

namespace zero {
namespace {

constexpr int kBadWorker = 1;

struct BadPush {
  std::string name;
  float gradient = 0;  // replaces each element; 0: unchanged
  double loss = 0;     // replaces the loss; 0: unchanged
};
const std::vector<BadPush> kBad{{"an infinite gradient", std::numeric_limits<float>::infinity(), 0},
                                {"a gradient that is no number", std::numeric_limits<float>::quiet_NaN(), 0},
                                {"a loss that is no number", 0, std::numeric_limits<double>::quiet_NaN()}};

// kBadWorker pushes `bad` in clock `in_clock`.
TrainedClocks with_bad_push(const BadPush& bad, std::int64_t in_clock, TrainedClocks run) {
  const auto is_it = [in_clock](int worker, std::int64_t clock) { return worker == kBadWorker && clock == in_clock; };
  run.gradient = [bad, is_it](int worker, std::int64_t clock, float value) {
    return bad.gradient != 0 && is_it(worker, clock) ? bad.gradient : value;
  };
  run.loss = [bad, is_it](int worker, std::int64_t clock) {
    return bad.loss != 0 && is_it(worker, clock) ? bad.loss : loss_of(worker, clock);
  };
  return run;
}

bool are_finite(const std::vector<std::uint32_t>& weights) {
  return std::ranges::all_of(weights, [](std::uint32_t bits) { return std::isfinite(std::bit_cast<float>(bits)); });
}

bool has(const PushAction& action, int worker, std::int64_t clock) {
  return action.clock == clock && std::ranges::count(action.workers, worker) > 0;
}

const std::vector<ParamSpec> kOneWeight{{.name = "weight", .shape = {3, 5}}};
constexpr std::size_t kElements = 15;

// kOneWeight after these actions, by plain loops: momentum SGD that skips each update with kBadWorker's push of
// `in_clock`.
std::vector<double> by_hand(const TrainedBits& served, int workers, const TrainedClocks& run, std::int64_t in_clock) {
  std::vector<double> weights, momentum(kElements, 0);
  for (std::size_t i = 0; i < kElements; ++i) weights.push_back(noise(7, 0, i));
  std::vector<std::vector<double>> read(static_cast<std::size_t>(workers));
  for (const PushAction& action : served.actions) {
    if (action.kind == PushAction::Kind::kAnswer) read[static_cast<std::size_t>(action.workers.front())] = weights;
    if (action.kind != PushAction::Kind::kUpdate || has(action, kBadWorker, in_clock)) continue;
    const double lr = run.lr(action.clock) / (1.0 + static_cast<double>(action.age));
    for (std::size_t i = 0; i < kElements; ++i) {
      double gradient = 0;
      for (const int worker : action.workers)
        gradient += 0.5 * read[static_cast<std::size_t>(worker)][i] +
                    noise(static_cast<std::uint64_t>(action.clock * 16 * 64 + worker), 0, i);
      momentum[i] = 0.9 * momentum[i] + gradient / static_cast<double>(action.workers.size());
      weights[i] -= lr * momentum[i];
    }
  }
  return weights;
}

void expect_near(const std::vector<std::uint32_t>& bits, const std::vector<double>& expected) {
  ASSERT_EQ(bits.size(), expected.size());
  for (std::size_t i = 0; i < bits.size(); ++i) EXPECT_NEAR(std::bit_cast<float>(bits[i]), expected[i], 1e-5) << i;
}

AttachOptions with_momentum(const SyncPlan& sync) {
  return {.sync = sync, .optimizer = SgdOptions{.momentum = 0.9, .weight_decay = 0}};
}

// Random delays of workers, by seed.
TrainedClocks somebody_late(std::int64_t clocks, std::uint64_t seed) {
  return {.clocks = clocks, .before = [seed](int worker, std::int64_t clock) {
            const auto turns = std::mt19937_64(seed * 1000 + static_cast<std::uint64_t>(worker * 100 + clock))() % 200;
            for (std::uint64_t turn = 0; turn < turns; ++turn) std::this_thread::yield();
          }};
}

// Only the update with the bad push is skipped.
TEST(UnfitPush, AsynchronousRunSkipsOnlyThePush) {
  constexpr int kWorkers = 3;
  constexpr std::int64_t kClocks = 6, kIn = 2;
  for (const int servers : {1, 2}) {
    const AttachOptions options = with_momentum({.mode = SyncMode::kAsync, .servers = servers, .staleness = 2});
    for (const BadPush& bad : kBad) {
      SCOPED_TRACE(fmt::format("{}, {} servers", bad.name, servers));
      const TrainedClocks run = with_bad_push(bad, kIn, somebody_late(kClocks, 1));
      const TrainedBits served = served_run(options, kWorkers, kOneWeight, run);
      EXPECT_EQ(served.skipped, 1);
      EXPECT_EQ(served.updates, kWorkers * kClocks - 1);
      EXPECT_EQ(served.applied, (std::vector<std::int64_t>{kClocks, kClocks - 1, kClocks}))
          << "a skipped push is not applied";
      expect_near(served.weights, by_hand(served, kWorkers, run, kIn));
    }
  }
}

TEST(UnfitPush, QuorumSkipsClocksUpdate) {
  constexpr std::int64_t kClocks = 5;
  const AttachOptions options = with_momentum({.servers = 2, .quorum = 2});
  for (const BadPush& bad : kBad) {
    SCOPED_TRACE(bad.name);
    std::atomic<bool> is_done = false;  // whether clock 0 is done, without worker 2
    const TrainedClocks run = with_bad_push(bad, 0, {.clocks = kClocks, .before = [&](int worker, std::int64_t clock) {
                                                       if (worker == 0 && clock == 1) is_done = true;
                                                       while (worker == 2 && !is_done) std::this_thread::yield();
                                                     }});
    const TrainedBits served = served_run(options, 3, kOneWeight, run);
    EXPECT_EQ(served.skipped, 1);
    EXPECT_EQ(served.updates, kClocks - 1);
    expect_near(served.weights, by_hand(served, 3, run, 0));
  }
}

// A dropped push skips no update.
TEST(UnfitPush, LatePushIsDropped) {
  constexpr std::int64_t kClocks = 5;
  const AttachOptions options = with_momentum({.servers = 1, .quorum = 2});
  for (const BadPush& bad : kBad) {
    SCOPED_TRACE(bad.name);
    std::atomic<bool> is_done = false;  // whether clock 0 is done, without kBadWorker
    std::atomic<bool> is_back = false;  // whether kBadWorker has pushed clock 0
    const auto before = [&](int worker, std::int64_t clock) {
      if (worker == 0 && clock == 1) is_done = true;
      if (worker == kBadWorker && clock > 0) is_back = true;
      while (worker == kBadWorker && !is_done) std::this_thread::yield();
      while (worker == 0 && clock == kClocks - 1 && !is_back) std::this_thread::yield();
    };
    const TrainedClocks run = with_bad_push(bad, 0, {.clocks = kClocks, .before = before});
    const TrainedBits served = served_run(options, 3, kOneWeight, run);
    EXPECT_TRUE(std::ranges::any_of(served.actions, [](const PushAction& action) {
      return action.kind == PushAction::Kind::kDrop && has(action, kBadWorker, 0);
    }));
    EXPECT_EQ(served.skipped, 0);
    EXPECT_EQ(served.updates, kClocks);
    expect_near(served.weights, by_hand(served, 3, run, 0));
  }
}

TEST(UnfitPush, StaleRunSkipsClocksUpdate) {
  constexpr std::int64_t kClocks = 6, kIn = 2;
  const AttachOptions options = with_momentum({.mode = SyncMode::kStale, .servers = 2, .staleness = 1});
  for (const BadPush& bad : kBad) {
    SCOPED_TRACE(bad.name);
    const TrainedBits served = served_run(options, 2, kOneWeight, with_bad_push(bad, kIn, somebody_late(kClocks, 1)));
    EXPECT_EQ(served.skipped, 1);
    EXPECT_EQ(served.applied, (std::vector<std::int64_t>{kClocks - 1, kClocks - 1}));
    EXPECT_TRUE(are_finite(served.weights));
    EXPECT_EQ(served_run(options, 2, kOneWeight, with_bad_push(bad, kIn, somebody_late(kClocks, 2))).weights,
              served.weights);
  }
}

// Adam's moments, a clipped norm and compensated gradients would each keep an infinity. A replay has the same bits.
TEST(UnfitPush, LeavesNoTraceInStates) {
  const AttachOptions adamw{.clip = 0.5};
  for (const SyncPlan& sync : {SyncPlan{.mode = SyncMode::kAsync, .servers = 2, .staleness = 3},
                               SyncPlan{.mode = SyncMode::kAsync, .servers = 1, .staleness = 3, .compensation = 1},
                               SyncPlan{.servers = 2, .quorum = 2}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const BadPush& bad : kBad) {
        SCOPED_TRACE(fmt::format("{}, {}, quorum {}, compensation {}", bad.name, name_of(dtype), sync.quorum,
                                 sync.compensation));
        AttachOptions options = adamw;
        options.sync = sync;
        const TrainedBits recorded =
            served_run(options, 3, small_specs(dtype), with_bad_push(bad, 1, somebody_late(6, 1)));
        const auto held_it = std::ranges::count_if(recorded.actions, [](const PushAction& action) {
          return action.kind == PushAction::Kind::kUpdate && has(action, kBadWorker, 1);
        });
        EXPECT_EQ(recorded.skipped, held_it);
        if (sync.mode == SyncMode::kAsync) {
          EXPECT_EQ(held_it, 1);
        }
        EXPECT_TRUE(are_finite(recorded.weights));
        TrainedClocks again = with_bad_push(bad, 1, somebody_late(6, 1001));
        again.replayed = recorded.events;
        const TrainedBits replayed = served_run(options, 3, small_specs(dtype), again);
        EXPECT_EQ(replayed.events, recorded.events);
        EXPECT_EQ(replayed.weights, recorded.weights);
        EXPECT_EQ(replayed.skipped, recorded.skipped);
        EXPECT_EQ(replayed.applied, recorded.applied);
      }
    }
  }
}

// The test runs in a new process, because the log level is read only once.
TEST(UnfitPush, IsToldOnceWithItsParameter) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const EnvironmentVariable level("ZERO_LOG_LEVEL", "warn");
  const auto num_reports = [] {
    const AttachOptions options = with_momentum({.mode = SyncMode::kAsync, .servers = 2, .staleness = 2});
    testing::internal::CaptureStderr();
    served_run(options, 2, kOneWeight, with_bad_push(kBad.front(), 2, {.clocks = 4}));
    const std::string told = testing::internal::GetCapturedStderr();
    std::fputs(told.c_str(), stderr);
    return occurrences("a step is skipped: the gradient of weight is not finite (1 in a row)", told);
  };
  EXPECT_EXIT(std::_Exit(num_reports()), testing::ExitedWithCode(1), "");
}

}  // namespace
}  // namespace zero
