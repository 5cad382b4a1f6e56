#include <cmath>

#include <gtest/gtest.h>

#include "zero/base/files/file.h"

#include "app/models/llama.h"
#include "app/train/tasks/tasks.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

TEST(LlamaTask, LearnsNextTokenAndWritesText) {
  const auto task = real_task(some_llama(), kTextShape);
  const auto tokens = torch::arange(16, at::kLong).view({2, 8});
  EXPECT_NEAR(task->loss(tokens, tokens + 1).item<double>(), std::log(256.0), 0.1);
  EXPECT_EQ(task->tokens_per_sample(), 8);
  ASSERT_NE(task->language_model(), nullptr);
  EXPECT_EQ(task->language_model()->vocab(), 256);
  EXPECT_EQ(task->language_model()->context(), 8);
}

TEST(LlamaTask, ItsKeysMakeTheModel) {
  auto options = some_llama();
  options.hidden = 24;
  options.rope_theta = 500;
  options.norm_eps = 1e-6;
  options.tie_embeddings = true;
  const auto task = make_task(options, kTextShape, 1);
  const LlamaOptions& made = dynamic_cast<LlamaImpl&>(task->module()).options();
  EXPECT_EQ(made.key_heads(), 1);
  EXPECT_EQ(made.hidden_width(), 24);
  EXPECT_EQ(made.rope_theta, 500);
  EXPECT_EQ(made.norm_eps, 1e-6);
  EXPECT_TRUE(made.tie_embeddings);
}

TEST(LlamaTask, RefusesUnfitOptionsByKey) {
  EXPECT_TRUE(says(refusal_of_task(some_llama(), {.context = 9, .classes = 256}), "model.context is 8"));
  auto options = some_llama();
  options.vocab = 255;
  EXPECT_TRUE(says(refusal_of_task(options, kTextShape), "model.vocab = 255: smaller than a token of the data"));
  EXPECT_TRUE(says(refusal_of_task(some_llama(), kTextsShape), "it cannot read this data: tokens"));
}

TEST(LlamaTask, OffloadsTheInputsOfItsBlocks) {
  auto options = some_llama();
  options.layers = 3;
  options.checkpoint_activations = true;
  options.activation_offload = ActivationOffloadOptions{.tier = Tier::kHost};
  const auto task = real_task(options, kTextShape);
  const auto tokens = torch::arange(16, at::kLong).view({2, 8});
  const auto loss = task->loss(tokens, tokens);
  const OffloadedInput inputs = offloaded_inputs(options, 2, 8, DType::kFloat32);
  EXPECT_EQ(task->activations()->report().activation_offload.bytes, inputs.count * inputs.bytes)
      << "the inputs of three blocks, without the shared angles";
}

TEST(LlamaTask, WeightsAreDescribedForTransformers) {
  const TemporaryFolder folder;
  EXPECT_TRUE(make_task(some_llama(), kTextShape, 1)->describe_weights(folder.path(), DType::kFloat32));
  EXPECT_TRUE(says(read_file(folder / "config.json"), "\"num_key_value_heads\": 1"));
}

}  // namespace
}  // namespace zero
