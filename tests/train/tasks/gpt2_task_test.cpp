#include <cmath>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"

#include "app/train/tasks/tasks.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

TEST(Gpt2TaskTest, LanguageModelLearnsNextToken) {
  const auto task = real_task(some_gpt2(), kTextShape);
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
  EXPECT_DOUBLE_EQ(task->perplexity(std::log(8.0)).value(), 8);
}

TEST(Gpt2TaskTest, ZeroVocabularyIsTheDatas) {
  EXPECT_EQ(make_task(some_gpt2(), kTextShape, 1)->language_model()->vocab(), 256);
  auto padded = some_gpt2();
  padded.vocab = 320;
  EXPECT_EQ(make_task(padded, kTextShape, 1)->language_model()->vocab(), 320);
  padded.vocab = 255;
  EXPECT_TRUE(says(refusal_of_task(padded, kTextShape), "model.vocab = 255: smaller than a token of the data"));
}

TEST(Gpt2TaskTest, RefusesContextBeyondModels) {
  EXPECT_TRUE(says(refusal_of_task(some_gpt2(), {.context = 9, .classes = 256}), "model.context is 8"));
  EXPECT_EQ(sample_context(some_gpt2(), 0), 8);
  EXPECT_EQ(sample_context(some_gpt2(), 5), 5);
}

TEST(Gpt2TaskTest, ParksActivationsIfKept) {
  ModelOptions options = some_gpt2();
  EXPECT_EQ(make_task(options, kTextShape, 1)->activations(), nullptr);
  options.activation_offload = ActivationOffloadOptions{.tier = Tier::kHost};
  EXPECT_TRUE(says(refusal_of_task(options, kTextShape),
                   "train.offload_activations = host: only the inputs of activation checkpoints"));
  options.checkpoint_activations = true;
  const auto task = real_task(options, kTextShape);
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

TEST(Gpt2TaskTest, WeightsAreDescribedForTransformers) {
  const TemporaryFolder folder;
  const auto task = make_task(some_gpt2(), kTextShape, 1);
  EXPECT_TRUE(task->describe_weights(folder.path(), DType::kBFloat16));
  EXPECT_NE(read_file(folder / "config.json").find("\"n_embd\""), std::string::npos);
  folder.write("config.json", "{\"mine\": 1}");
  EXPECT_FALSE(task->describe_weights(folder.path(), DType::kFloat32)) << "the file belongs to no model, and stays";
}

}  // namespace
}  // namespace zero
