#include "app/report/step_history.h"

#include <gtest/gtest.h>

#include "tests/comm/transport/worlds.h"

namespace zero {
namespace {

StepMetrics step(std::int64_t number, double loss, double seconds) {
  return {.step = number, .loss = loss, .grad_norm = 1.0 * static_cast<double>(number), .seconds = seconds};
}

TEST(StepHistory, AveragesLossesAndTakesSlowestTimes) {
  run_ranks(2, [](World& world) {
    StepHistory history(10, 100);
    const double rank = world.rank();
    history.add(step(1, 1 + rank, 0.5 + rank));
    history.add(step(2, 3 + 2 * rank, 0.25));
    const Exchanged news = history.exchange(world.communicator(), 0);
    ASSERT_EQ(news.steps.size(), 2U);
    EXPECT_EQ(news.steps[0].loss, 1.5);
    EXPECT_EQ(news.steps[0].seconds, 1.5);
    EXPECT_EQ(news.steps[1].loss, 4);
    EXPECT_EQ(history.losses(), (std::vector<float>{1.5F, 4}));
    EXPECT_EQ(history.grad_norms(), (std::vector<double>{1, 2}));
    EXPECT_EQ(history.seconds(), (std::vector<double>{1.5, 0.25}));
  });
}

// In a pipeline other places repeat the losses of the first place. A sum over 3 x 2 ranks would have other bits.
TEST(StepHistory, OnlyFirstRanksAreAveraged) {
  run_ranks(3, [](World& world) {
    StepHistory history(10, 100, /*num_averaged=*/1);
    history.add(step(1, 0.1, 1.0 + world.rank()));
    const Exchanged news = history.exchange(world.communicator(), 0);
    EXPECT_EQ(news.steps[0].loss, 0.1) << "and not (0.1 + 0.1 + 0.1) / 3";
    EXPECT_EQ(news.steps[0].seconds, 3);
  });
}

TEST(StepHistory, NewestStepHasRankFigures) {
  run_ranks(2, [](World& world) {
    StepHistory history(10, 100);
    for (const std::int64_t number : {1, 2}) {
      StepMetrics metrics = step(number, 1, 1);
      metrics.mine = {.steps = 1, .waited_seconds = 1.0 + world.rank()};
      history.add(metrics);
    }
    const Exchanged news = history.exchange(world.communicator(), 0);
    EXPECT_TRUE(news.steps[0].ranks.empty());
    EXPECT_EQ(news.steps[1].ranks,
              (std::vector<RankFigures>{{.steps = 2, .waited_seconds = 2}, {.steps = 2, .waited_seconds = 4}}));
  });
}

TEST(StepHistory, WorkersStandBehindTheServers) {
  run_ranks(1, [](World& world) {
    StepHistory history(10, 100);
    StepMetrics metrics = step(1, 1, 1);
    metrics.workers = {{.gradients = 1}, {.gradients = 2}};
    history.add(metrics);
    metrics.workers = {{.gradients = 1}, {.gradients = 0}};
    history.add(metrics);
    const std::vector<RankFigures> ranks = history.exchange(world.communicator(), 0).steps.back().ranks;
    EXPECT_EQ(ranks, (std::vector<RankFigures>{{}, {.gradients = 2}, {.gradients = 2}}));
  });
}

TEST(StepHistory, SingleRankHasNoRankFigures) {
  run_ranks(1, [](World& world) {
    StepHistory history(10, 100);
    history.add(step(1, 1, 1));
    EXPECT_TRUE(history.exchange(world.communicator(), 0).steps.back().ranks.empty());
  });
}

TEST(StepHistory, NothingIsExchangedTwice) {
  run_ranks(1, [](World& world) {
    StepHistory history(10, 100);
    history.add(step(1, 1, 1));
    history.exchange(world.communicator(), 0);
    EXPECT_FALSE(history.exchange_due());
    EXPECT_TRUE(history.exchange(world.communicator(), 0).steps.empty());
    EXPECT_EQ(history.losses().size(), 1U);
  });
}

TEST(StepHistory, OneRanksSignalStopsAll) {
  run_ranks(3, [](World& world) {
    StepHistory history(10, 100);
    history.add(step(1, 1, 1));
    EXPECT_EQ(history.exchange(world.communicator(), world.rank() == 1 ? 15 : 0).stop_signal, 15);
  });
}

TEST(StepHistory, LogsFirstLastAndEveryTenth) {
  const StepHistory history(10, 25);
  std::vector<std::int64_t> logged;
  for (std::int64_t s = 1; s <= 25; ++s) {
    if (history.is_logged(s)) logged.push_back(s);
  }
  EXPECT_EQ(logged, (std::vector<std::int64_t>{1, 10, 20, 25}));
  EXPECT_FALSE(StepHistory(0, 25).is_logged(10));
}

// The steps after which ranks exchange values, if each step takes `seconds`.
std::vector<std::int64_t> meetings(double seconds, std::int64_t log_every, std::int64_t steps) {
  std::vector<std::int64_t> found;
  run_ranks(1, [&](World& world) {
    StepHistory history(log_every, steps);
    for (std::int64_t s = 1; s <= steps; ++s) {
      history.add(step(s, 1, seconds));
      if (!history.exchange_due()) continue;
      found.push_back(s);
      history.exchange(world.communicator(), 0);
    }
  });
  return found;
}

TEST(StepHistory, FastStepsMeetSeldom) {
  EXPECT_EQ(meetings(0.005, 100, 101), (std::vector<std::int64_t>{1, 51, 100, 101}));
}

// Frequent exchanges let ranks notice a stop signal.
TEST(StepHistory, SlowStepsMeetEveryStep) {
  EXPECT_EQ(meetings(2, 100, 4), (std::vector<std::int64_t>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace zero
