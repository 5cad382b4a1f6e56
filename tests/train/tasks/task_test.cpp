#include "app/train/tasks/task.h"

#include <cmath>

#include <gtest/gtest.h>

#include <c10/util/Exception.h>

#include "zero/torch/meta/meta_trace.h"

#include "app/models/gpt2.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

TEST(Task, AClassifierLearnsLabels) {
  const auto task = real_task(some_mlp({4, 3}), kImageShape);
  Batch batch;
  batch.input.reset<float>({2, 4}) = {1, 2, 3, 4, 5, 6, 7, 8};
  batch.target.reset<std::int64_t>({2}) = {0, 2};
  EXPECT_NEAR(task->loss(batch).item<double>(), std::log(3.0), 0.3);
  EXPECT_EQ(task->language_model(), nullptr);
  EXPECT_FALSE(task->perplexity(1));
  EXPECT_EQ(task->tokens_per_sample(), 1);
}

struct WhereBatchesGo final : Task {
  torch::nn::Module& module() override { return nothing; }
  torch::Tensor loss(const torch::Tensor& input, const torch::Tensor& target) override {
    seen = {input.device(), target.device()};
    return input;
  }
  using Task::loss;
  double flops_per_sample() const override { return 0; }
  torch::nn::Module nothing;
  std::vector<c10::Device> seen;
};

TEST(Task, MovesBatchesToModulesDevice) {
  Batch batch;
  batch.input.reset<float>({1, 2}) = {1, 2};
  batch.target.reset<std::int64_t>({1}) = {0};
  WhereBatchesGo task;
  task.loss(batch);
  EXPECT_EQ(task.seen, std::vector<c10::Device>(2, c10::Device(at::kCPU)));
  task.compute_on(at::kMeta);  // a device that every libtorch has, besides the CPU
  task.loss(batch);
  EXPECT_EQ(task.seen, std::vector<c10::Device>(2, c10::Device(at::kMeta)));
  task.score(batch);
  EXPECT_EQ(task.seen, std::vector<c10::Device>(2, c10::Device(at::kMeta)));
}

TEST(Task, ARegressionLearnsNumbers) {
  const auto task = real_task(ModelOptions{.name = "linear"}, kTableShape);
  const torch::NoGradGuard no_grad;
  for (auto& tensor : task->module().parameters()) tensor.zero_();
  Batch batch;
  batch.input.reset<float>({2, 4}) = {1, 2, 3, 4, 5, 6, 7, 8};
  batch.target.reset<float>({2, 1}) = {3, -1};
  EXPECT_FLOAT_EQ(task->loss(batch).item<float>(), 5) << "(9 + 1) / 2";
}

struct CountWarnings : c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override { ++count; }
  int count = 0;
};

// libtorch prints no warning.
TEST(Task, TracesRegressionWithoutWarning) {
  CountWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  const auto task = make_task({.name = "linear"}, kTableShape, 0);
  const auto meta = at::TensorOptions(at::kFloat).device(at::kMeta);
  trace_on_meta(task->module(), [&](int) { return task->loss(at::empty({5, 4}, meta), at::empty({5, 1}, meta)); }, {});
  EXPECT_EQ(warnings.count, 0);
}

// Smoothed targets affect only training.
TEST(Task, LabelSmoothingAffectsTrainingOnly) {
  auto smoothed = some_mlp({4, 3});
  smoothed.label_smoothing = 0.3;
  const auto task = real_task(smoothed, kImageShape), plain = real_task(some_mlp({4, 3}), kImageShape);
  const auto input = torch::rand({5, 4}) * 10;
  const auto target = torch::tensor({0, 2, 1, 1, 0}, at::kLong);
  const auto logs = [&] {
    const torch::NoGradGuard no_grad;
    std::vector<double> sums(2);
    for (std::int64_t row = 0; row < 5; ++row) {
      for (std::int64_t label = 0; label < 3; ++label) {
        const double log = plain->loss(input.narrow(0, row, 1), torch::tensor({label}, at::kLong)).item<double>() / 5;
        sums[0] += log / 3;
        if (label == target[row].item<std::int64_t>()) sums[1] += log;
      }
    }
    return 0.3 * sums[0] + 0.7 * sums[1];
  };
  EXPECT_NEAR(task->loss(input, target).item<double>(), logs(), 1e-5);
  EXPECT_TRUE(torch::equal(task->score(input, target).loss, plain->loss(input, target)));
  auto tokens = some_gpt2();
  tokens.label_smoothing = 0.1;
  const auto text = torch::arange(16, at::kLong).view({2, 8});
  const auto model = real_task(tokens, kTextShape);
  EXPECT_FALSE(torch::equal(model->loss(text, text), model->score(text, text).loss));
  EXPECT_TRUE(torch::equal(model->score(text, text).loss, real_task(some_gpt2(), kTextShape)->loss(text, text)));
}

TEST(Task, NumbersHaveNoLabelsToSmooth) {
  EXPECT_TRUE(says(refusal_of_task({.name = "linear", .label_smoothing = 0.1}, kTableShape),
                   "train.label_smoothing = 0.1: the targets of this data are numbers"));
}

TEST(Task, LossesAreAlwaysFp32) {
  const auto task = real_task(some_mlp({4, 3}), kImageShape);
  task->module().to(at::kBFloat16);
  Batch batch;
  batch.input.reset<float>({1, 4}) = {1, 2, 3, 4};
  batch.target.reset<std::int64_t>({1}) = {1};
  EXPECT_EQ(task->loss(batch).scalar_type(), at::kFloat);
}

TEST(Task, TensorsAreTheBatchsOwnMemory) {
  Array array;
  auto& values = array.reset<float>({2, 3});
  const auto tensor = as_tensor(array);
  values[4] = 7;
  EXPECT_EQ(tensor[1][1].item<float>(), 7);
  EXPECT_EQ(tensor.sizes().vec(), (std::vector<std::int64_t>{2, 3}));
}

TEST(Task, FlopsCountEverySample) {
  EXPECT_EQ(make_task({.name = "linear"}, kTableShape, 1)->flops_per_sample(), 24);
  const auto task = make_task(some_gpt2(), kTextShape, 1);
  EXPECT_EQ(task->flops_per_sample(), 8 * flops_per_token(dynamic_cast<Gpt2Impl&>(task->module()).options(), 8));
}

}  // namespace
}  // namespace zero
