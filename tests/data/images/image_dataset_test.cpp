#include "app/data/images/image_dataset.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"

#include "app/data/images/mnist.h"
#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

// Three images of 2 x 1 pixels with labels 4, 0, 9.
void write_three(const TemporaryFolder& folder, const std::string& prefix = "t10k") {
  folder.write(prefix + "-images-idx3-ubyte", idx_images(3, 2, 1, std::string("\x00\xff\x33\x66\x99\xcc", 6)));
  folder.write(prefix + "-labels-idx1-ubyte", idx_labels(std::string("\4\0\11", 3)));
}

TEST(ImageDataset, ScalesPixelsToOne) {
  const TemporaryFolder folder;
  write_three(folder);
  const ImageDataset data(read_mnist(folder.path(), "data.path"), 0, 3, "data.path");
  Batch batch;
  EXPECT_EQ(data.fill(std::vector<std::int64_t>{2, 0}, batch), 2);
  EXPECT_EQ(batch.input.shape, (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(std::get<std::vector<float>>(batch.input.values), (std::vector<float>{0.6f, 0.8f, 0.0f, 1.0f}));
  EXPECT_EQ(batch.target.shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(batch.target.values), (std::vector<std::int64_t>{9, 4}));
}

TEST(ImageDataset, APartKnowsItsShape) {
  const TemporaryFolder folder;
  write_three(folder);
  const auto images = read_mnist(folder.path(), "data.path");
  const ImageDataset first(images, 0, 2, "data.path"), last(images, 2, 3, "data.path");
  EXPECT_EQ(first.size(), 2);
  EXPECT_EQ(first.shape().classes, 5);
  EXPECT_EQ(last.shape().classes, 10);
  EXPECT_EQ(last.shape().features, 2);
  EXPECT_EQ(last.shape().context, 0);
  EXPECT_THROW(ImageDataset(images, 1, 1, "data.path"), ConfigError);
}

TEST(ImageDataset, LabelBeyondTheModelIsNamed) {
  const TemporaryFolder folder;
  write_three(folder);
  const ImageDataset data(read_mnist(folder.path(), "data.path"), 1, 3, "data.path");
  EXPECT_NO_THROW(data.require_classes(10, "model.sizes"));
  const auto message = message_of<ConfigError>([&] { data.require_classes(9, "model.sizes"); });
  EXPECT_TRUE(says(message, "model.sizes = [..., 9]: the last size is the number of classes, and label 2 of "));
  EXPECT_TRUE(says(message, "t10k-labels-idx1-ubyte is 9\n  The data needs at least 10: end the list with 10."));
}

// 5 x 5 pixels with one bright pixel in the middle.
LabelledImages a_dot() {
  LabelledImages images{.path = "dot", .height = 5, .width = 5, .pixels = std::vector<std::uint8_t>(25), .labels = {0}};
  images.pixels[12] = 255;
  return images;
}

std::int64_t place_of_dot(const Batch& batch, std::size_t row) {
  const auto& pixels = std::get<std::vector<float>>(batch.input.values);
  const auto begin = pixels.begin() + static_cast<std::ptrdiff_t>(row * 25);
  EXPECT_EQ(std::count(begin, begin + 25, 1.0f), 1);
  EXPECT_EQ(std::count(begin, begin + 25, 0.0f), 24);
  return std::find(begin, begin + 25, 1.0f) - begin;
}

// Shifts reach every place within two pixels.
TEST(ImageDataset, ShiftsCoverTwoPixels) {
  const ImageDataset data(a_dot(), 0, 1, "data.path", {.augment = Augment::kShift});
  Batch batch;
  data.fill_training(std::vector<std::int64_t>(1000, 0), /*seed=*/7, /*first=*/0, batch);
  std::vector<int> found(25);
  for (std::size_t row = 0; row < 1000; ++row) ++found[static_cast<std::size_t>(place_of_dot(batch, row))];
  for (const int times : found) EXPECT_NEAR(times, 40, 30);
}

// The shift depends on the sample's number in the run.
TEST(ImageDataset, ShiftFollowsSeedAndSample) {
  const ImageDataset data(a_dot(), 0, 1, "data.path", {.augment = Augment::kShift});
  const auto places = [&](std::uint64_t seed, std::int64_t first, std::int64_t count) {
    Batch batch;
    data.fill_training(std::vector<std::int64_t>(static_cast<std::size_t>(count), 0), seed, first, batch);
    std::vector<std::int64_t> found;
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) found.push_back(place_of_dot(batch, row));
    return found;
  };
  const auto whole = places(7, 0, 12);
  const auto second = places(7, 6, 6);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), whole.begin() + 6)) << "for any division of a step";
  EXPECT_NE(places(8, 0, 12), whole);
  EXPECT_NE(places(7, 12, 12), whole) << "another epoch";
}

TEST(ImageDataset, OnlyTrainingShifts) {
  const ImageDataset shifted(a_dot(), 0, 1, "data.path", {.augment = Augment::kShift}),
      still(a_dot(), 0, 1, "data.path");
  const std::vector<std::int64_t> samples(20, 0);
  Batch batch;
  shifted.fill(samples, batch);
  for (std::size_t row = 0; row < 20; ++row) EXPECT_EQ(place_of_dot(batch, row), 12);
  still.fill_training(samples, 7, 0, batch);
  for (std::size_t row = 0; row < 20; ++row) EXPECT_EQ(place_of_dot(batch, row), 12);
}

// 2 x 3 pixels with six different values.
LabelledImages six_pixels() {
  return {.path = "six", .height = 2, .width = 3, .pixels = {51, 102, 153, 204, 255, 0}, .labels = {0}};
}

std::vector<std::vector<float>> trained_rows(const ImageDataset& data, std::uint64_t seed, std::int64_t first,
                                             std::size_t count) {
  Batch batch;
  data.fill_training(std::vector<std::int64_t>(count, 0), seed, first, batch);
  const auto& values = std::get<std::vector<float>>(batch.input.values);
  std::vector<std::vector<float>> rows;
  for (auto at = values.begin(); at != values.end(); at += 6) rows.emplace_back(at, at + 6);
  return rows;
}

TEST(ImageDataset, RectanglesAreShifted) {
  const ImageDataset data(six_pixels(), 0, 1, "data.path", {.augment = Augment::kShift});
  const auto rows = trained_rows(data, 3, 0, 200);
  EXPECT_GT(std::ranges::count(rows, std::vector<float>{0, 0.2F, 0.4F, 0, 0.8F, 1}), 0) << "one to the right";
  EXPECT_GT(std::ranges::count(rows, std::vector<float>{0.8F, 1, 0, 0, 0, 0}), 0) << "one up";
}

TEST(ImageDataset, EverySecondImageIsFlipped) {
  const ImageDataset data(six_pixels(), 0, 1, "data.path", {.augment = Augment::kFlip});
  const auto rows = trained_rows(data, 3, 0, 1000);
  const auto flipped = std::ranges::count(rows, std::vector<float>{0.6F, 0.4F, 0.2F, 0, 1, 0.8F});
  EXPECT_NEAR(flipped, 500, 60);
  EXPECT_EQ(std::ranges::count(rows, std::vector<float>{0.2F, 0.4F, 0.6F, 0.8F, 1, 0}), 1000 - flipped);
}

TEST(ImageDataset, FlipsDependOnSeedAndNumber) {
  const ImageDataset data(six_pixels(), 0, 1, "data.path", {.augment = Augment::kFlip});
  const auto whole = trained_rows(data, 7, 0, 40);
  const auto second = trained_rows(data, 7, 20, 20);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), whole.begin() + 20)) << "for any division of a step";
  EXPECT_NE(trained_rows(data, 8, 0, 40), whole);
  EXPECT_NE(trained_rows(data, 7, 40, 40), whole) << "another epoch";
}

TEST(ImageDataset, EvaluationNeverFlips) {
  const ImageDataset data(six_pixels(), 0, 1, "data.path", {.augment = Augment::kShiftFlip});
  Batch batch;
  data.fill(std::vector<std::int64_t>(50, 0), batch);
  const auto& values = std::get<std::vector<float>>(batch.input.values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], (std::vector<float>{0.2F, 0.4F, 0.6F, 0.8F, 1, 0})[i % 6]);
}

// torchvision's ToTensor() and Normalize(mean, std), with mean and std per channel.
TEST(ImageDataset, ChannelsAreNormalised) {
  const LabelledImages images{
      .path = "three", .channels = 3, .height = 1, .width = 1, .pixels = {255, 51, 0}, .labels = {0}};
  const ImageDataset data(images, 0, 1, "data.path", {.mean = {0.5, 0.25, 0.125}, .deviation = {0.5, 2, 0.25}});
  Batch batch;
  data.fill(std::vector<std::int64_t>{0}, batch);
  EXPECT_EQ(std::get<std::vector<float>>(batch.input.values), (std::vector<float>{1, (0.2F - 0.25F) / 2, -0.5F}));
  const ImageDataset same(images, 0, 1, "data.path", {.mean = {0.5}});
  same.fill(std::vector<std::int64_t>{0}, batch);
  EXPECT_EQ(std::get<std::vector<float>>(batch.input.values), (std::vector<float>{0.5F, 0.2F - 0.5F, -0.5F}));
}

// A shift adds bytes of 0 at the border, not inputs of 0.
TEST(ImageDataset, BordersAreNormalised) {
  const ImageDataset data(six_pixels(), 0, 1, "data.path", {.augment = Augment::kShift, .mean = {0.5}});
  const auto rows = trained_rows(data, 3, 0, 200);
  EXPECT_GT(std::ranges::count(rows, std::vector<float>(6, -0.5F)), 0) << "moved out of sight";
}

TEST(ImageDataset, PreprocessingIsDescribed) {
  LabelledImages images = six_pixels();
  images.classes = {"daisy"};
  images.fitted = true;
  const auto json = nlohmann::json::parse(
      ImageDataset(images, 0, 1, "data.path", {.mean = {0.5}, .deviation = {0.25}}).preprocessing());
  EXPECT_EQ(json["num_channels"], 1);
  EXPECT_EQ(json["rescale_factor"], 1.0 / 255);
  EXPECT_EQ(json["image_mean"], std::vector{0.5});
  EXPECT_EQ(json["image_std"], std::vector{0.25});
  EXPECT_EQ(json["do_normalize"], true);
  EXPECT_EQ(json["do_center_crop"], true);
  EXPECT_EQ(json["crop_size"]["height"], 2);
  EXPECT_EQ(json["crop_size"]["width"], 3);
  EXPECT_EQ(json["id2label"]["0"], "daisy");
  const auto plain = nlohmann::json::parse(ImageDataset(six_pixels(), 0, 1, "data.path").preprocessing());
  EXPECT_EQ(plain["do_resize"], false);
  EXPECT_EQ(plain["do_normalize"], false);
  EXPECT_EQ(plain["size"]["width"], 3);
}

TEST(ImageDataset, ShowsADigitInCharacters) {
  LabelledImages one{.path = "one", .height = 28, .width = 28, .pixels = std::vector<std::uint8_t>(784), .labels = {1}};
  for (std::size_t row = 4; row < 24; ++row) {
    for (std::size_t column = 12; column < 16; ++column) one.pixels[row * 28 + column] = 255;
  }
  const ImageDataset data(one, 0, 1, "data.path");
  EXPECT_EQ(data.show(0, 60), "      @@\n      @@\n      @@\n      @@\n      @@");
  EXPECT_EQ(data.name_of(1), "1");
  EXPECT_THROW(data.show(1, 60), InternalError);
}

TEST(ImageDataset, ReadsTheRealDigits) {
  const auto images = read_mnist(std::string(built::kSourceFolder) + "/examples/mnist_mlp/data", "data.path");
  ASSERT_EQ(images.size(), 10'000);
  EXPECT_EQ(images.num_features(), 784);
  EXPECT_EQ(std::vector<std::uint8_t>(images.labels.begin(), images.labels.begin() + 5),
            (std::vector<std::uint8_t>{7, 2, 1, 0, 4}));
  const ImageDataset data(images, 8000, 10'000, "data.path");
  EXPECT_EQ(data.shape().classes, 10);
  EXPECT_EQ(data.name_of(7), "7");
  for (std::int64_t digit = 0; digit < 20; ++digit) {
    std::istringstream shown(data.show(digit, 60));
    std::vector<std::string> lines;
    for (std::string line; std::getline(shown, line);) lines.push_back(line);
    EXPECT_TRUE(lines.size() >= 3 && lines.size() <= 7) << shown.str();
    for (const std::string& line : lines) EXPECT_LE(line.size(), 14U) << shown.str();
    EXPECT_NE(shown.str().find('@'), std::string::npos) << "its brightest part: " << shown.str();
  }
  Batch batch;
  data.fill(std::vector<std::int64_t>{0}, batch);
  const auto& pixels = std::get<std::vector<float>>(batch.input.values);
  EXPECT_EQ(pixels.size(), 784u);
  EXPECT_EQ(*std::max_element(pixels.begin(), pixels.end()), 1.0f);
}

}  // namespace
}  // namespace zero
