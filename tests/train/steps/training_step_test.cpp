#include "app/train/steps/training_step.h"

#include <array>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tests/comm/transport/worlds.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

// Rows of four numbers. Every target is `target`.
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
  // The steps of rank 0 in a world of `world` ranks.
  std::vector<TakenStep> take(const TrainJob& job, int world, int steps, const TrainingStep::Limits& limits) {
    std::vector<TakenStep> taken;
    run_ranks(world, [&](World& ranks) {
      const auto task = make_task(job.model, kTableShape, 1);
      Engine engine = attach(task->module(), ranks, job.attach);
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

TEST_F(TrainingSteps, MetricsDescribeTheNextStep) {
  const auto steps = take(job_of(1), 2, 2, no_limits);
  EXPECT_EQ(steps[0].metrics.step, 5);
  EXPECT_EQ(steps[1].metrics.step, 6);
  EXPECT_EQ(steps[0].metrics.samples_so_far, 104) << "two samples of each rank";
  EXPECT_EQ(steps[0].metrics.tokens, 4) << "rows";
  EXPECT_FALSE(steps[0].metrics.has_tokens);
  EXPECT_EQ(steps[0].metrics.lr, 0.01);
  EXPECT_EQ(steps[0].metrics.grad_norm, steps[0].report.grad_norm);
  EXPECT_GT(steps[0].metrics.seconds, 0);
}

TEST_F(TrainingSteps, LossIsMicroBatchMean) {
  const auto steps = take(job_of(2), 1, 1, no_limits);
  EXPECT_FLOAT_EQ(static_cast<float>(steps[0].metrics.loss), 9) << "the model begins with 0, the targets are 3";
  EXPECT_EQ(steps[0].metrics.samples_so_far, 104);
}

TEST_F(TrainingSteps, ExceededLimitUpdatesNothing) {
  std::vector<double> asked;
  const auto steps = take(job_of(1), 1, 2, [&](double loss) {
    asked.push_back(loss);
    return StepLimits{.loss = loss, .max_loss = 1};
  });
  EXPECT_TRUE(steps[0].report.skipped);
  ASSERT_EQ(asked.size(), 2U);
  EXPECT_FLOAT_EQ(static_cast<float>(asked[0]), 9);
  EXPECT_FLOAT_EQ(static_cast<float>(asked[1]), 9) << "the model did not change";
}

// Rows and targets between -1 and 1, computed from the sample's number.
struct Rows {
  static float target(std::int64_t sample) { return number(5 * static_cast<std::uint64_t>(sample) + 4); }
  static float input(std::int64_t sample, std::size_t feature) {
    return number(5 * static_cast<std::uint64_t>(sample) + feature);
  }
  static float number(std::uint64_t seed) {
    return static_cast<float>(static_cast<double>(std::mt19937_64(seed)()) * 0x1p-63 - 1);
  }
  static Prefetcher::Fill of(const BatchGrid& grid) {
    return [grid](std::int64_t micro_batch, Batch& batch) {
      auto& input = batch.input.reset<float>({grid.batch, 4});
      auto& target = batch.target.reset<float>({grid.batch, 1});
      for (std::int64_t row = 0; row < grid.batch; ++row) {
        const std::int64_t sample = global_sample_index(grid, micro_batch, row);
        target[static_cast<std::size_t>(row)] = Rows::target(sample);
        for (std::size_t at = 0; at < 4; ++at) input[static_cast<std::size_t>(row) * 4 + at] = Rows::input(sample, at);
      }
    };
  }
};

// The gradient of the mean squared error over `count` samples from `first` on, in double. The last element belongs to
// the bias. `size` is the sum of the terms' absolute values.
struct LinearGradient {
  std::array<double, 5> value{}, size{};

  LinearGradient(const std::array<double, 5>& weights, std::int64_t first, std::int64_t count) {
    for (std::int64_t sample = first; sample < first + count; ++sample) {
      double error = weights[4] - Rows::target(sample),
             error_size = std::abs(weights[4]) + std::abs(Rows::target(sample));
      for (std::size_t at = 0; at < 4; ++at) {
        error += weights[at] * Rows::input(sample, at);
        error_size += std::abs(weights[at] * Rows::input(sample, at));
      }
      for (std::size_t at = 0; at < 5; ++at) {
        const double input = at == 4 ? 1.0 : Rows::input(sample, at);
        value[at] += 2 * error * input / static_cast<double>(count);
        size[at] += 2 * error_size * std::abs(input) / static_cast<double>(count);
      }
    }
  }
};

std::array<double, 5> weights_and_bias(const torch::Tensor& weight, const torch::Tensor& bias) {
  std::array<double, 5> all{};
  for (std::size_t at = 0; at < 4; ++at) all[at] = weight.flatten()[static_cast<std::int64_t>(at)].item<double>();
  all[4] = bias.item<double>();
  return all;
}

// Gradients are the mean over all samples. The first update begins at zero weights, the second does not.
TEST_F(TrainingSteps, UnequalSharesAverageOverSamples) {
  using Given = std::vector<std::int64_t>;
  struct Case {
    std::int64_t batch;
    Given shares;
  };
  for (const auto& [batch, shares] : {Case{4, {7, 1}}, Case{4, {2, 6}}, Case{3, {4, 3, 2}}}) {
    const int world = static_cast<int>(shares.size());
    TrainJob job = job_of(2);
    job.train.batch = batch;
    job.train.share = {.kind = ShareKind::kGiven, .given = shares};
    job.attach.optimizer = Sgd{.lr = 0.5};
    job.schedule.lr = 0.5;
    run_ranks(world, [&, given = shares, per_rank = batch](World& ranks) {
      const auto task = make_task(job.model, kTableShape, 1);
      Engine engine = attach(task->module(), ranks, job.attach);
      const SampleShares mine(job.train.share, per_rank, world, ranks.rank());
      Prefetcher batches(0, 2 * job.train.accumulate, Rows::of(mine.grid()));
      TrainingStep training(job, *task, engine, ranks.rank(), mine, nullptr);
      const std::int64_t samples = per_rank * world * job.train.accumulate;
      RunState done;
      for (; done.step < 2; ++done.step) {
        const auto before = weights_and_bias(engine.full_state("linear.weight"), engine.full_state("linear.bias"));
        EXPECT_EQ(before[0] != 0, done.step > 0);
        training.take(done, batches, [&](double) {
          const auto found = weights_and_bias(engine.gradient("linear.weight"), engine.gradient("linear.bias"));
          const LinearGradient expected(before, done.step * samples, samples);
          // Each term is rounded a few times, and each sum once per term.
          const double roundings = static_cast<double>(samples + 16) * 0x1p-24;
          for (std::size_t at = 0; at < 5; ++at)
            EXPECT_NEAR(found[at], expected.value[at], roundings * expected.size[at])
                << mine.text() << ", step " << done.step << ", element " << at;
          return StepLimits{};
        });
      }
    });
  }
}

}  // namespace
}  // namespace zero
