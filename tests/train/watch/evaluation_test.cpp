#include "app/train/watch/evaluation.h"

#include <cmath>
#include <mutex>

#include <gtest/gtest.h>

#include <ATen/ops/cross_entropy_loss.h>

#include "app/data/open_data.h"
#include "app/data/sample/row_dataset.h"
#include "app/train/tasks/model_kind.h"
#include "tests/comm/transport/worlds.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/filled.h"

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
      const BatchGrid grid = even_grid(batch, world, ranks.rank());
      const double mine = evaluate(*task, *corpus_.validation, grid, batches, ranks.communicator()).loss;
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
  // The mean over single samples, each weighted by its targets.
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

TEST_F(Evaluation, WorldAndBatchDoNotMatter) {
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

TEST_F(Evaluation, LimitTakesFirstBatchesOnly) {
  EXPECT_NE(loss(1, 2, 1), loss(1, 2, 0));
  EXPECT_EQ(loss(1, 2, 1000), loss(1, 2, 0));
}

TEST_F(Evaluation, LeavesTheModelInTraining) {
  run_ranks(1, [&](World& world) {
    const auto task = some_task(corpus_.shape());
    EXPECT_FALSE(evaluate(*task, *corpus_.validation, even_grid(2, 1, 0), 1, world.communicator()).accuracy);
    EXPECT_TRUE(task->module().is_training());
  });
}

// The larger number of a row is its class. The model's answer is the two numbers.
class Larger : public Task {
 public:
  using Task::loss;
  torch::nn::Module& module() override { return module_; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    return score(input, target).loss;
  }
  Score score(const torch::Tensor& input, const torch::Tensor& target) override {
    return {at::cross_entropy_loss(input, target), input.argmax(1).eq(target).sum()};
  }
  double flops_per_sample() const override { return 1; }

 private:
  torch::nn::Module module_{"larger"};
};

// Accuracy is the share of targets found.
TEST(EvaluationOfClasses, CountsFoundTargetsOverAllRanks) {
  class Rows : public RowDataset {
   public:
    Rows() : RowDataset(7, "data.path", "rows") {}
    SampleShape shape() const override { return {.features = 2, .classes = 2}; }
    std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override {
      const auto rows = static_cast<std::int64_t>(samples.size());
      auto& input = batch.input.reset<float>({rows, 2});
      auto& target = batch.target.reset<std::int64_t>({rows});
      for (std::size_t i = 0; i < samples.size(); ++i) {
        input[2 * i] = static_cast<float>(samples[i] % 2);
        input[2 * i + 1] = 1 - input[2 * i];
        target[i] = samples[i] < 5 ? 1 - samples[i] % 2 : samples[i] % 2;  // the last two targets are wrong
      }
      return rows;
    }
    void require_classes(std::int64_t, std::string_view) const override {}
  };
  for (const int world : {1, 2, 3}) {
    run_ranks(world, [&](World& ranks) {
      Larger task;
      const Rows rows;
      const EvaluationResult found = evaluate(task, rows, even_grid(2, world, ranks.rank()), 0, ranks.communicator());
      EXPECT_DOUBLE_EQ(found.accuracy.value(), 5.0 / 7) << world;
    });
  }
}

}  // namespace
}  // namespace zero
