#include "zero/train/evaluation.h"

#include <cmath>
#include <mutex>

#include <gtest/gtest.h>

#include "zero/data/open_data.h"
#include "zero/train/model_kind.h"

#include "tests/temporary_folder.h"
#include "tests/train/filled.h"
#include "tests/transport/worlds.h"

namespace zero {
namespace {

ModelOptions small_gpt2() {
  return {.name = "gpt2", .layers = 1, .width = 8, .heads = 2, .context = 8};
}

std::unique_ptr<Task> some_task(const SampleShape& shape) {
  auto task = make_task(small_gpt2(), shape, 1);
  fill(task->module(), 0.3, 4);
  return task;
}

class Evaluation : public testing::Test {
 protected:
  Evaluation() {
    std::string text;
    for (int i = 0; i < 203; ++i) text += static_cast<char>('a' + i * i % 23);
    corpus_ =
        open_data({.kind = DataKind::kText, .path = folder_.write("text", text), .validation = 0.5, .context = 8});
  }

  double loss(int world, std::int64_t batch, std::int64_t batches) {
    double result = 0;
    run_ranks(world, [&](World& ranks) {
      const auto task = some_task(corpus_.shape());
      const BatchGrid grid{.batch = batch, .world = world, .rank = ranks.rank()};
      const double mine = evaluate(*task, *corpus_.validation, grid, batches, ranks.communicator());
      const std::lock_guard lock(mutex_);
      if (ranks.rank() == 0) result = mine;
      all_.push_back(mine);
    });
    return result;
  }

  TemporaryFolder folder_;
  Corpus corpus_;
  std::mutex mutex_;
  std::vector<double> all_;
};

TEST_F(Evaluation, IsTheMeanOverEveryTarget) {
  const auto task = some_task(corpus_.shape());
  // Sample by sample, each weighted by its targets.
  double sum = 0;
  std::int64_t count = 0;
  Batch batch;
  const torch::NoGradGuard no_grad;
  for (std::int64_t i = 0; i < corpus_.validation->pass_size(); ++i) {
    const std::int64_t sample = corpus_.validation->pass_sample(i);
    const auto counted = corpus_.validation->fill(std::span(&sample, 1), batch);
    sum += task->loss(batch).item<double>() * static_cast<double>(counted);
    count += counted;
  }
  EXPECT_EQ(count, corpus_.validation->size() - 1);
  EXPECT_NEAR(loss(1, 3, 0), sum / static_cast<double>(count), 1e-6);
}

TEST_F(Evaluation, IsTheSameForAnyWorldAndBatch) {
  const double expected = loss(1, 1, 0);
  for (const int world : {2, 3}) {
    for (const std::int64_t batch : {1, 4, 100})
      EXPECT_NEAR(loss(world, batch, 0), expected, 1e-6) << world << " ranks, batch " << batch;
  }
}

TEST_F(Evaluation, RanksAgreeToTheBit) {
  loss(3, 2, 0);
  ASSERT_EQ(all_.size(), 3U);
  EXPECT_EQ(all_[0], all_[1]);
  EXPECT_EQ(all_[0], all_[2]);
}

TEST_F(Evaluation, ALimitLooksAtTheFirstBatchesOnly) {
  EXPECT_NE(loss(1, 2, 1), loss(1, 2, 0));
  EXPECT_EQ(loss(1, 2, 1000), loss(1, 2, 0));
}

TEST_F(Evaluation, LeavesTheModelInTraining) {
  run_ranks(1, [&](World& world) {
    const auto task = some_task(corpus_.shape());
    evaluate(*task, *corpus_.validation, {.batch = 2}, 1, world.communicator());
    EXPECT_TRUE(task->module().is_training());
  });
}

}  // namespace
}  // namespace zero
