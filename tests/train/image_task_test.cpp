#include "zero/train/image_task.h"

#include <gtest/gtest.h>

#include "zero/train/model_kind.h"

#include "tests/train/some_tasks.h"

namespace zero {
namespace {

constexpr SampleShape kDigits{.features = 144, .classes = 10};

TEST(ImageTasks, SortImagesIntoTheDatasClasses) {
  for (const char* name : {"cnn", "rnn", "lstm", "gru"}) {
    const auto task = real_task({.name = name, .layers = 1, .hidden = 6}, kDigits);
    const auto images = torch::rand({5, 144});
    const auto classes = torch::tensor({0, 9, 3, 4, 5}, at::kLong);
    const Task::Score score = task->score(images, classes);
    EXPECT_TRUE(torch::equal(score.loss, task->loss(images, classes))) << name;
    EXPECT_LE(score.num_correct.item<std::int64_t>(), 5) << name;
    EXPECT_GT(task->flops_per_sample(), 0) << name;
    EXPECT_FALSE(task->has_tokens()) << name;
  }
}

TEST(ImageTasks, ImagesMustBeSquare) {
  for (const char* name : {"cnn", "lstm"})
    EXPECT_TRUE(says(refusal_of_task({.name = name}, {.features = 145, .classes = 10}), "not a square image")) << name;
  EXPECT_TRUE(says(refusal_of_task({.name = "cnn"}, {.features = 100, .classes = 10}), "too small"));
}

TEST(ImageTasks, ColoursAreReadByACnnAndByNoRecurrentNetwork) {
  const SampleShape colours{.features = 3 * 28 * 28, .channels = 3, .classes = 10};
  EXPECT_NO_THROW(make_cnn_task({.name = "cnn"}, colours, 1));
  EXPECT_TRUE(says(refusal_of_task({.name = "gru"}, colours), "data.channels = 3: this model reads the rows of grey"));
}

TEST(ImageTasks, ReadNoTables) {
  EXPECT_TRUE(says(refusal_of_task({.name = "cnn"}, kTextShape), "images and their classes"));
  for (const char* name : {"cnn", "rnn", "lstm", "gru"})
    EXPECT_TRUE(says(refusal_of_task({.name = name}, kTableShape), "use [data] kind mnist")) << name;
}

TEST(ImageTasks, OptionsOfANetworkAreRefusedByKey) {
  EXPECT_TRUE(says(refusal_of_task({.name = "lstm", .layers = 0}, kDigits), "model.layers"));
  EXPECT_TRUE(says(refusal_of_task({.name = "gru", .hidden = -1}, kDigits), "model.hidden"));
}

}  // namespace
}  // namespace zero
