#include "zero/train/task.h"

#include <cmath>

#include <gtest/gtest.h>

#include "zero/base/error.h"
#include "zero/torch/deferred.h"

#include "tests/message_of.h"
#include "tests/train/filled.h"

namespace zero {
namespace {

constexpr SampleShape kText{.context = 8, .classes = 256};
constexpr SampleShape kImages{.features = 4, .classes = 3};
constexpr SampleShape kTable{.features = 4};

ModelOptions gpt2() {
  return {.name = "gpt2", .layers = 1, .width = 8, .heads = 2, .context = 8};
}
ModelOptions mlp(std::vector<std::int64_t> sizes) {
  return {.name = "mlp", .sizes = std::move(sizes)};
}

std::unique_ptr<Task> real_task(const ModelOptions& options, const SampleShape& shape) {
  auto task = make_task(options, shape, 1);
  fill(task->module(), 0.02, 3);
  return task;
}

std::string refusal(const ModelOptions& options, const SampleShape& shape) {
  return message_of<ConfigError>([&] { make_task(options, shape, 1); });
}

TEST(Task, ModulesAreDeferred) {
  for (const auto& task :
       {make_task(gpt2(), kText, 1), make_task(mlp({4, 3}), kImages, 1), make_task({.name = "linear"}, kTable, 1)}) {
    for (const auto& tensor : task->module().parameters()) EXPECT_TRUE(is_deferred(tensor));
  }
}

TEST(Task, AModelThatWillBeLoadedHasNoMemoryYet) {
  ModelOptions options = gpt2();
  options.init = "weights to come";
  const auto task = make_task(options, kText, 1);
  for (const auto& tensor : task->module().parameters()) EXPECT_TRUE(is_deferred(tensor));
}

TEST(Task, ALanguageModelLearnsTheNextToken) {
  const auto task = real_task(gpt2(), kText);
  Batch batch;
  auto& input = batch.input.reset<std::int64_t>({2, 8});
  auto& target = batch.target.reset<std::int64_t>({2, 8});
  for (std::size_t i = 0; i < 16; ++i) {
    input[i] = static_cast<std::int64_t>(i);
    target[i] = static_cast<std::int64_t>(i + 1);
  }
  EXPECT_NEAR(task->loss(batch).item<double>(), std::log(256.0), 0.1);
  const auto whole = task->loss(batch).item<double>();
  target[15] = kIgnoredTarget;
  EXPECT_NE(task->loss(batch).item<double>(), whole) << "a target that does not count";
  EXPECT_EQ(task->tokens_per_sample(), 8);
  EXPECT_NE(task->language_model(), nullptr);
}

TEST(Task, AClassifierLearnsLabels) {
  const auto task = real_task(mlp({4, 3}), kImages);
  Batch batch;
  batch.input.reset<float>({2, 4}) = {1, 2, 3, 4, 5, 6, 7, 8};
  batch.target.reset<std::int64_t>({2}) = {0, 2};
  EXPECT_NEAR(task->loss(batch).item<double>(), std::log(3.0), 0.3);
  EXPECT_EQ(task->language_model(), nullptr);
  EXPECT_EQ(task->tokens_per_sample(), 1);
}

TEST(Task, ARegressionLearnsNumbers) {
  const auto task = real_task(ModelOptions{.name = "linear"}, kTable);
  const torch::NoGradGuard no_grad;
  for (auto& tensor : task->module().parameters()) tensor.zero_();
  Batch batch;
  batch.input.reset<float>({2, 4}) = {1, 2, 3, 4, 5, 6, 7, 8};
  batch.target.reset<float>({2, 1}) = {3, -1};
  EXPECT_FLOAT_EQ(task->loss(batch).item<float>(), 5) << "(9 + 1) / 2";
}

TEST(Task, LossesAreFp32WhateverTheParametersAre) {
  const auto task = real_task(mlp({4, 3}), kImages);
  task->module().to(at::kBFloat16);
  Batch batch;
  batch.input.reset<float>({1, 4}) = {1, 2, 3, 4};
  batch.target.reset<std::int64_t>({1}) = {1};
  EXPECT_EQ(task->loss(batch).scalar_type(), at::kFloat);
}

TEST(Task, AVocabularyOfZeroIsTheDatas) {
  EXPECT_EQ(make_task(gpt2(), kText, 1)->language_model()->get()->options().vocab, 256);
  auto padded = gpt2();
  padded.vocab = 320;
  EXPECT_EQ(make_task(padded, kText, 1)->language_model()->get()->options().vocab, 320);
  padded.vocab = 255;
  EXPECT_TRUE(says(refusal(padded, kText), "model.vocab = 255: smaller than a token of the data"));
}

TEST(Task, AContextBeyondTheModelsIsRefused) {
  EXPECT_TRUE(says(refusal(gpt2(), {.context = 9, .classes = 256}), "model.context is 8"));
  EXPECT_EQ(sample_context(gpt2(), 0), 8);
  EXPECT_EQ(sample_context(gpt2(), 5), 5);
}

TEST(Task, SizesMustBeTheDatas) {
  EXPECT_TRUE(says(refusal(mlp({5, 3}), kImages), "a row of the data has 4 numbers"));
  EXPECT_TRUE(says(refusal(mlp({4, 2}), kImages), "the data has 3 classes"));
  EXPECT_TRUE(says(refusal(mlp({4, 2}), kTable), "the target is one number"));
  EXPECT_NO_THROW(make_task(mlp({4, 7, 10}), kImages, 1)) << "more outputs than labels seen";
}

TEST(Task, AModelIsNotGivenDataThatItCannotRead) {
  EXPECT_TRUE(says(refusal(gpt2(), kImages), "model.name = gpt2"));
  EXPECT_TRUE(says(refusal(mlp({8, 2}), kText), "model.name = mlp"));
  EXPECT_TRUE(says(refusal({.name = "linear"}, kImages), "model.name = linear"));
  EXPECT_TRUE(says(refusal({.name = "resnet"}, kImages), "use gpt2, mlp or linear"));
}

TEST(Task, OnlyBlocksAreComputedAgain) {
  ModelOptions options = gpt2();
  options.checkpoint_activations = true;
  EXPECT_TRUE(make_task(options, kText, 1)->language_model()->get()->options().checkpoint);
  options = mlp({4, 3});
  options.checkpoint_activations = true;
  EXPECT_TRUE(says(refusal(options, kImages), "train.checkpoint_activations = true: model.name = mlp has no blocks"));
  options.name = "linear";
  EXPECT_TRUE(says(refusal(options, kTable), "leave it false, or use model.name gpt2"));
}

TEST(Task, ActivationsAreParkedWhereTheyAreKept) {
  ModelOptions options = gpt2();
  EXPECT_EQ(make_task(options, kText, 1)->activations(), nullptr);
  options.activation_offload = ActivationOffloadOptions{.tier = Tier::kHost};
  EXPECT_TRUE(says(refusal(options, kText), "train.offload_activations = host: what is offloaded are the inputs"));
  options.checkpoint_activations = true;
  const auto task = real_task(options, kText);
  ASSERT_NE(task->activations(), nullptr);
  Batch batch;
  batch.input.reset<std::int64_t>({2, 8});
  batch.target.reset<std::int64_t>({2, 8});
  const auto loss = task->loss(batch);
  EXPECT_EQ(task->activations()->report().activation_offload.bytes, 2 * 8 * 8 * 4) << "the input of one block";
  loss.backward();
  EXPECT_EQ(task->activations()->report().activation_offload.bytes, 0);
  const torch::NoGradGuard evaluation;
  const auto again = task->loss(batch);
  EXPECT_EQ(task->activations()->report().activation_offload.bytes, 0);
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
  EXPECT_EQ(make_task({.name = "linear"}, kTable, 1)->flops_per_sample(), 24);
  const auto task = make_task(gpt2(), kText, 1);
  EXPECT_EQ(task->flops_per_sample(), 8 * flops_per_token(task->language_model()->get()->options(), 8));
}

}  // namespace
}  // namespace zero
