#include <cmath>

#include <gtest/gtest.h>

#include "app/train/tasks/model_kind.h"
#include "app/train/tasks/tasks.h"
#include "tests/train/some_tasks.h"

namespace zero {
namespace {

constexpr SampleShape kDigits{.features = 144, .height = 12, .width = 12, .classes = 10};

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

// Images of 64 x 96 pixels were once refused with "6144 pixels: not a square image".
TEST(ImageTasks, ReadRectangles) {
  for (const char* name : {"cnn", "rnn", "lstm", "gru"}) {
    const SampleShape shape{.features = 64 * 96, .height = 64, .width = 96, .classes = 10};
    const auto task = real_task({.name = name, .layers = 1, .hidden = 6}, shape);
    const auto scores = task->score(torch::rand({2, 64 * 96}), torch::tensor({0, 9}, at::kLong));
    EXPECT_TRUE(std::isfinite(scores.loss.item<float>())) << name;
  }
}

// The state after the last row, by libtorch's functions of one step.
torch::Tensor state_of_rows(const std::string& cell, const torch::Tensor& images, const std::vector<torch::Tensor>& w) {
  torch::Tensor hidden = torch::zeros({images.size(0), w[1].size(1)}), memory = torch::zeros_like(hidden);
  for (const torch::Tensor& row : images.unbind(1)) {
    if (cell == "lstm") {
      std::tie(hidden, memory) = torch::lstm_cell(row, {hidden, memory}, w[0], w[1], w[2], w[3]);
    } else {
      hidden = cell == "gru" ? torch::gru_cell(row, hidden, w[0], w[1], w[2], w[3])
                             : torch::rnn_tanh_cell(row, hidden, w[0], w[1], w[2], w[3]);
    }
  }
  return hidden;
}

// A rectangle's rows, from the top, are the steps of the sequence; its columns are their numbers.
TEST(ImageTasks, RectanglesAreReadRowByRow) {
  constexpr int kHeight = 3, kWidth = 5;
  for (const char* name : {"rnn", "lstm", "gru"}) {
    const SampleShape shape{.features = kHeight * kWidth, .height = kHeight, .width = kWidth, .classes = 4};
    const auto task = real_task({.name = name, .layers = 1, .hidden = 6}, shape);
    fill(task->module(), 0.5, 3);
    const torch::Tensor images = torch::arange(2 * kHeight * kWidth).reshape({2, kHeight * kWidth}) / 30.0;
    const torch::Tensor classes = torch::tensor({0, 3}, at::kLong);
    const auto all = task->module().named_parameters();
    const torch::Tensor state =
        state_of_rows(name, images.reshape({2, kHeight, kWidth}),
                      {all["rnn.weight_ih_l0"], all["rnn.weight_hh_l0"], all["rnn.bias_ih_l0"], all["rnn.bias_hh_l0"]});
    const torch::Tensor logits = torch::linear(state, all["head.weight"], all["head.bias"]);
    EXPECT_NEAR(task->loss(images, classes).item<double>(), torch::cross_entropy_loss(logits, classes).item<double>(),
                1e-5)
        << name;
  }
}

TEST(ImageTasks, SmallImagesAreRefused) {
  EXPECT_EQ(
      refusal_of_task({.name = "cnn"}, {.features = 110, .height = 10, .width = 11, .classes = 10}),
      "model.name = cnn: images of 10 x 11 pixels are too small for two 5 x 5 convolutions\n  use images of 12 x 12 "
      "pixels or more, or model.name mlp; data.size = 12 resizes those of data.kind images");
}

// Rows of a table with classes have no height and width.
TEST(ImageTasks, RowsWithoutShapeAreRefused) {
  for (const char* name : {"cnn", "lstm"})
    EXPECT_TRUE(says(refusal_of_task({.name = name}, {.features = 144, .classes = 10}),
                     "it cannot read this data: images and their classes"))
        << name;
}

// Recurrent networks do not read colours.
TEST(ImageTasks, ColoursNeedCnn) {
  const SampleShape colours{.features = 3 * 28 * 28, .channels = 3, .height = 28, .width = 28, .classes = 10};
  EXPECT_NO_THROW(make_cnn_task({.name = "cnn"}, colours, 1));
  EXPECT_TRUE(says(refusal_of_task({.name = "gru"}, colours), "data.channels = 3: this model reads the rows of grey"));
}

TEST(ImageTasks, ReadNoTables) {
  EXPECT_TRUE(says(refusal_of_task({.name = "cnn"}, kTextShape), "images and their classes"));
  for (const char* name : {"cnn", "rnn", "lstm", "gru"})
    EXPECT_TRUE(says(refusal_of_task({.name = name}, kTableShape), "use [data] kind mnist")) << name;
}

TEST(ImageTasks, RefusesNetworkOptionsByKey) {
  EXPECT_TRUE(says(refusal_of_task({.name = "lstm", .layers = 0}, kDigits), "model.layers"));
  EXPECT_TRUE(says(refusal_of_task({.name = "gru", .hidden = -1}, kDigits), "model.hidden"));
}

}  // namespace
}  // namespace zero
