#include <cmath>

#include <gtest/gtest.h>

#include "app/train/tasks/tasks.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

constexpr const char* kNames[] = {"rnn", "lstm", "gru"};

TEST(RecurrentTasks, LearnNextTokenAndWriteText) {
  for (const char* name : kNames) {
    const auto task = real_task({.name = name, .layers = 1, .hidden = 6, .context = 8}, kTextShape);
    const auto tokens = torch::arange(16, at::kLong).view({2, 8});
    EXPECT_NEAR(task->loss(tokens, tokens + 1).item<double>(), std::log(256.0), 0.1) << name;
    EXPECT_EQ(task->tokens_per_sample(), 8) << name;
    EXPECT_TRUE(task->has_tokens()) << name;
    ASSERT_NE(task->language_model(), nullptr) << name;
    EXPECT_EQ(task->language_model()->context(), 8) << name;
    EXPECT_EQ(task->language_model()->vocab(), 256) << name;
  }
}

TEST(RecurrentTasks, OfImagesSortThem) {
  for (const char* name : kNames) {
    const auto task =
        real_task({.name = name, .layers = 1, .hidden = 6}, {.features = 16, .height = 4, .width = 4, .classes = 3});
    EXPECT_TRUE(task->score(torch::rand({2, 16}), torch::tensor({0, 2}, at::kLong)).num_correct.defined()) << name;
    EXPECT_EQ(task->language_model(), nullptr) << name;
  }
}

TEST(RecurrentTasks, HaveUsualWidthByDefault) {
  const auto task = make_task({.name = "gru", .layers = 1}, kTextShape, 1);
  EXPECT_EQ(task->module().named_parameters()["head.weight"].sizes().vec(), (std::vector<std::int64_t>{256, 128}));
}

TEST(RecurrentTasks, RefuseUnfitOptionsByKey) {
  EXPECT_TRUE(
      says(refusal_of_task({.name = "lstm", .context = 8}, {.context = 9, .classes = 256}), "data.context = 9"));
  EXPECT_TRUE(says(refusal_of_task({.name = "lstm", .context = 8, .vocab = 9}, kTextShape), "model.vocab = 9"));
  EXPECT_TRUE(says(refusal_of_task({.name = "lstm"}, kTextsShape), "use [data] kind mnist, images, text or tokens"));
}

TEST(RecurrentTasks, DataKindDecidesTextWriting) {
  EXPECT_TRUE(is_language_model("lstm", DataKind::kText));
  EXPECT_FALSE(is_language_model("lstm", DataKind::kMnist));
  EXPECT_TRUE(is_language_model("llama", DataKind::kTokens));
  EXPECT_FALSE(is_language_model("bert", DataKind::kTsv));
  EXPECT_FALSE(is_language_model("mlp", DataKind::kText));
}

}  // namespace
}  // namespace zero
