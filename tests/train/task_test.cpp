#include "zero/train/task.h"

#include <cmath>

#include <gtest/gtest.h>

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
  EXPECT_EQ(task->tokens_per_sample(), 1);
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

TEST(Task, LossesAreFp32WhateverTheParametersAre) {
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
  EXPECT_EQ(task->flops_per_sample(), 8 * flops_per_token(task->language_model()->get()->options(), 8));
}

}  // namespace
}  // namespace zero
