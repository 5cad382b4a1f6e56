#include "zero/train/training_step.h"

#include <gtest/gtest.h>

#include "tests/train/some_tasks.h"
#include "tests/transport/worlds.h"

namespace zero {
namespace {

// Rows of four numbers, whose targets are `target`.
Prefetcher::Fill rows_with(float target) {
  return [target](std::int64_t i, Batch& batch) {
    auto& input = batch.input.reset<float>({2, 4});
    for (std::size_t at = 0; at < input.size(); ++at) input[at] = static_cast<float>(at) * 0.1F + static_cast<float>(i);
    batch.target.reset<float>({2, 1}) = {target, target};
  };
}

TrainJob job_of(std::int64_t accumulate) {
  TrainJob job;
  job.model = {.name = "linear"};
  job.train = {.steps = 10, .batch = 2, .accumulate = accumulate};
  job.schedule = {.kind = LrKind::kConstant, .lr = 0.01, .warmup = 0, .steps = 10};
  job.attach = {.stage = 3, .optimizer = Sgd{.lr = 0.01}};
  job.attach.accumulate = static_cast<int>(accumulate);
  return job;
}

StepLimits no_limits(double /*loss*/) {
  return {};
}

class TrainingSteps : public testing::Test {
 protected:
  // The steps of rank 0 of `world`.
  std::vector<TakenStep> take(const TrainJob& job, int world, int steps, const TrainingStep::Limits& limits) {
    std::vector<TakenStep> taken;
    run_ranks(world, [&](World& ranks) {
      const auto task = make_task(job.model, kTableShape, 1);
      Attachment engine = attach(task->module(), ranks, job.attach);
      Prefetcher batches(0, steps * job.train.accumulate, rows_with(3));
      const SampleShares shares(job.train.share, job.train.batch, world, ranks.rank());
      TrainingStep training(job, *task, engine, ranks.rank(), shares, nullptr);
      RunState done{.step = 4, .samples = 100};
      for (int step = 0; step < steps; ++step) {
        TakenStep mine = training.take(done, batches, limits);
        ++done.step;
        done.samples = mine.metrics.samples_so_far;
        if (ranks.rank() == 0) taken.push_back(std::move(mine));
      }
    });
    return taken;
  }
};

TEST_F(TrainingSteps, MetricsAreOfTheStepThatComesNext) {
  const auto steps = take(job_of(1), 2, 2, no_limits);
  EXPECT_EQ(steps[0].metrics.step, 5);
  EXPECT_EQ(steps[1].metrics.step, 6);
  EXPECT_EQ(steps[0].metrics.samples_so_far, 104) << "two of each rank";
  EXPECT_EQ(steps[0].metrics.tokens, 4) << "rows";
  EXPECT_FALSE(steps[0].metrics.has_tokens);
  EXPECT_EQ(steps[0].metrics.lr, 0.01);
  EXPECT_EQ(steps[0].metrics.grad_norm, steps[0].report.grad_norm);
  EXPECT_GT(steps[0].metrics.seconds, 0);
}

TEST_F(TrainingSteps, TheLossIsTheMeanOfItsMicroBatches) {
  const auto steps = take(job_of(2), 1, 1, no_limits);
  EXPECT_FLOAT_EQ(static_cast<float>(steps[0].metrics.loss), 9) << "the model begins with 0, the targets are 3";
  EXPECT_EQ(steps[0].metrics.samples_so_far, 104);
}

TEST_F(TrainingSteps, WhatIsBeyondItsLimitUpdatesNothing) {
  std::vector<double> asked;
  const auto steps = take(job_of(1), 1, 2, [&](double loss) {
    asked.push_back(loss);
    return StepLimits{.loss = loss, .max_loss = 1};
  });
  EXPECT_TRUE(steps[0].report.skipped);
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_FLOAT_EQ(static_cast<float>(asked[0]), 9);
  EXPECT_FLOAT_EQ(static_cast<float>(asked[1]), 9) << "the model is as it was";
}

}  // namespace
}  // namespace zero
