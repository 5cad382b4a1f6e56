#include "app/data/images/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/data/open_data.h"
#include "tests/data/make_pictures.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// Pictures of 2 x 2 pixels. Each class has its own value.
void write_class(const TemporaryFolder& folder, const std::string& name, int count, std::uint8_t value) {
  std::filesystem::create_directories(folder / name);
  for (int i = 0; i < count; ++i)
    folder.write(name + "/" + std::to_string(i) + ".png", png_file(all_of(2, 2, {value})));
}

LabelledImages read(const TemporaryFolder& folder, std::int64_t channels = 1) {
  return read_image_folder(folder.path(), channels, "data.path");
}

std::string refusal(const TemporaryFolder& folder) {
  return message_of<ConfigError>([&] { read(folder); });
}

TEST(ImageFolder, AFolderIsAClass) {
  const TemporaryFolder folder;
  write_class(folder, "tulip", 3, 200);
  write_class(folder, "daisy", 2, 10);
  const LabelledImages images = read(folder);
  EXPECT_EQ(images.classes, (std::vector<std::string>{"daisy", "tulip"}));
  EXPECT_EQ(images.num_features(), 4);
  ASSERT_EQ(images.size(), 5);
  EXPECT_EQ(std::ranges::count(images.labels, 0), 2);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(images.pixels[4 * i], images.labels[i] == 0 ? 10 : 200);
}

TEST(ImageFolder, ShowsPicturesAndClassNames) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "flowers/tulip");
  std::filesystem::create_directories(folder / "flowers/daisy");
  folder.write("flowers/tulip/a.png", png_file({.height = 2, .width = 3, .values = {0, 128, 255, 0, 128, 255}}));
  folder.write("flowers/daisy/b.png", png_file({.height = 2, .width = 3, .values = {255, 0, 255, 255, 0, 255}}));
  const Corpus corpus = open_data({.kind = DataKind::kImages, .path = folder / "flowers", .validation = 0.0});
  EXPECT_EQ(corpus.train->name_of(0), "daisy");
  EXPECT_EQ(corpus.train->name_of(1), "tulip");
  Batch batch;
  const std::vector<std::int64_t> samples{0, 1};
  corpus.train->fill(samples, batch);
  const auto& classes = std::get<std::vector<std::int64_t>>(batch.target.values);
  for (const std::int64_t i : samples)
    EXPECT_EQ(corpus.train->show(i, 60), classes[static_cast<std::size_t>(i)] == 0 ? "@ @" : " +@");
}

TEST(ImageFolder, ThreeChannelsAreThreePlanes) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a");
  folder.write("a/x.png", png_file(all_of(1, 2, {1, 2, 3})));
  EXPECT_EQ(read(folder, 3).pixels, (std::vector<std::uint8_t>{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(read(folder, 3).num_features(), 6);
}

Corpus held_out_of(const TemporaryFolder& folder, double fraction) {
  return open_data({.kind = DataKind::kImages, .path = folder.path(), .validation = fraction});
}

std::vector<std::int64_t> labels_of(const Dataset& data) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < data.pass_size(); ++i) samples.push_back(data.pass_sample(i));
  Batch batch;
  data.fill(samples, batch);
  return std::get<std::vector<std::int64_t>>(batch.target.values);
}

// Before, all four held-out pictures were of one class.
TEST(ImageFolder, FractionHoldsOutEachClass) {
  const TemporaryFolder folder;
  write_class(folder, "a", 8, 1);
  write_class(folder, "b", 8, 2);
  const Corpus corpus = held_out_of(folder, 0.25);
  EXPECT_EQ(std::ranges::count(labels_of(*corpus.validation), 0), 2);
  EXPECT_EQ(std::ranges::count(labels_of(*corpus.validation), 1), 2);
  EXPECT_EQ(std::ranges::count(labels_of(*corpus.train), 0), 6);
  EXPECT_EQ(corpus.train->size(), 12);
}

TEST(ImageFolder, ClassOfTwoIsSplit) {
  const TemporaryFolder folder;
  write_class(folder, "many", 40, 1);
  write_class(folder, "one", 1, 2);
  write_class(folder, "two", 2, 3);
  const Corpus corpus = held_out_of(folder, 0.1);
  EXPECT_EQ(corpus.validation->size(), 5) << "4, 0 and 1";
  EXPECT_EQ(std::ranges::count(labels_of(*corpus.train), 1), 1);
  EXPECT_EQ(std::ranges::count(labels_of(*corpus.train), 2), 1);
}

TEST(ImageFolder, SinglePicturesCannotBeHeldOut) {
  const TemporaryFolder folder;
  for (const char* const name : {"a", "b"}) write_class(folder, name, 1, 1);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { held_out_of(folder, 0.1); }),
                   "data.validation = 0.1: no class has two samples, so none can be held out\n  use 0, "));
  EXPECT_EQ(held_out_of(folder, 0).train->size(), 2);
}

TEST(ImageFolder, ResizesPicturesToOneSize) {
  const TemporaryFolder folder;
  for (const char* const name : {"a", "b"}) std::filesystem::create_directories(folder / name);
  folder.write("a/x.png", png_file(all_of(3, 9, {7})));
  folder.write("b/y.png", png_file(all_of(20, 4, {200})));
  EXPECT_TRUE(says(refusal(folder), "pixels, but ")) << "without a size";
  EXPECT_TRUE(says(refusal(folder), "set data.size, such as data.size = 64"));
  const LabelledImages images = read_image_folder(folder.path(), 1, "data.path", {.height = 4, .width = 6});
  EXPECT_EQ(images.height, 4);
  EXPECT_EQ(images.width, 6);
  EXPECT_EQ(std::ranges::count(images.pixels, 7), 24);
  EXPECT_EQ(std::ranges::count(images.pixels, 200), 24);
}

// 2 x 6 and 3 x 4 pictures have equally many pixels, but not the same size.
TEST(ImageFolder, ValidationHasTheSameSize) {
  const TemporaryFolder train, held;
  for (const char* const name : {"a", "b"}) {
    for (const auto* const folder : {&train, &held}) std::filesystem::create_directories(*folder / name);
    train.write(std::string(name) + "/x.png", png_file(all_of(2, 6, {1})));
    held.write(std::string(name) + "/x.png", png_file(all_of(3, 4, {1})));
  }
  DataOptions options{.kind = DataKind::kImages, .path = train.path(), .validation = held.path()};
  const std::string message = message_of<ConfigError>([&] { open_data(options); });
  EXPECT_TRUE(says(message, "has images of 3 x 4 pixels, but those of the training data have 2 x 6"));
  EXPECT_TRUE(says(message, "set data.size"));
  options.size = {.height = 2, .width = 2};
  EXPECT_EQ(open_data(options).validation->shape().features, 4);
}

TEST(ImageFolder, HeldOutEndHasEachClass) {
  const TemporaryFolder folder;
  write_class(folder, "a", 40, 1);
  write_class(folder, "b", 40, 2);
  const LabelledImages images = read(folder);
  const auto ones = std::count(images.labels.end() - 20, images.labels.end(), 1);
  EXPECT_GT(ones, 3);
  EXPECT_LT(ones, 17);
  EXPECT_EQ(read(folder).labels, images.labels) << "the order is the same each time";
}

// Hidden files are skipped.
TEST(ImageFolder, FindsPicturesAtAnyDepth) {
  const TemporaryFolder folder;
  write_class(folder, "a/2024", 2, 1);
  folder.write("a/.DS_Store", "x");
  std::filesystem::create_directories(folder / ".thumbnails");
  EXPECT_EQ(read(folder).size(), 2);
}

TEST(ImageFolder, WhatIsWrongIsNamed) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(refusal(folder), "no folder of a class is in it"));
  write_class(folder, "a", 1, 1);
  std::filesystem::create_directories(folder / "empty");
  EXPECT_TRUE(says(refusal(folder), "empty: this class has no picture"));
  folder.write("empty/notes.txt", "words");
  EXPECT_TRUE(says(refusal(folder), "notes.txt: neither a PNG nor a JPEG"));
  folder.write("empty/notes.txt", png_file(all_of(3, 2, {1})));
  EXPECT_TRUE(says(refusal(folder), "3 x 2 pixels")) << "which of the two is first depends on the order";
  folder.write("stray.png", png_file(all_of(2, 2, {1})));
  EXPECT_TRUE(says(refusal(folder), "stray.png: a file among the folders of the classes"));
  EXPECT_TRUE(says(message_of<ConfigError>([&] { read_image_folder(folder / "none", 1, "data.path"); }),
                   "none: no such folder"));
}

TEST(ImageFolder, ValidationHasTheSameClasses) {
  const TemporaryFolder train, held;
  for (const char* const name : {"a", "b"}) write_class(train, name, 2, 1);
  for (const char* const name : {"a", "b"}) write_class(held, name, 1, 1);
  const DataOptions options{.kind = DataKind::kImages, .path = train.path(), .validation = held.path()};
  EXPECT_EQ(open_data(options).validation->size(), 2);
  write_class(held, "aa", 1, 1);
  const std::string message = message_of<ConfigError>([&] { open_data(options); });
  EXPECT_TRUE(says(message, "data.validation"));
  EXPECT_TRUE(says(message, "class 1 is aa, but in data.path it is b"));
}

TEST(ImageFolder, OneFolderIsTooFew) {
  const TemporaryFolder folder;
  write_class(folder, "daisy", 3, 1);
  const DataOptions options{.kind = DataKind::kImages, .path = folder.path(), .validation = 0.0};
  EXPECT_EQ(message_of<ConfigError>([&] { open_data(options); }),
            "data.path = " + folder.path().native() +
                ": all images are of one class, daisy\n  give a folder for each class, two or more");
}

TEST(ImageFolder, ShiftsColoursTogether) {
  const TemporaryFolder folder;
  Pixels pixels = all_of(5, 5, {0, 0, 0});
  for (std::size_t channel = 0; channel < 3; ++channel) pixels.values[12 * 3 + channel] = 255;
  for (const std::string name : {"a", "b"}) {
    std::filesystem::create_directories(folder / name);
    folder.write(name + "/dot.png", png_file(pixels));
  }
  const Corpus corpus = open_data({.kind = DataKind::kImages,
                                   .path = folder.path(),
                                   .validation = 0.0,
                                   .channels = 3,
                                   .images = {.augment = Augment::kShift}});
  Batch batch;
  corpus.train->fill_training(std::vector<std::int64_t>(20, 0), /*seed=*/3, /*first=*/0, batch);
  const auto& values = std::get<std::vector<float>>(batch.input.values);
  bool moved = false;
  for (std::size_t row = 0; row < 20; ++row) {
    const auto plane = [&](std::size_t channel) {
      return values.begin() + static_cast<std::ptrdiff_t>(row * 75 + channel * 25);
    };
    const auto at = std::find(plane(0), plane(1), 1.0f) - plane(0);
    ASSERT_LT(at, 25);
    EXPECT_EQ(std::find(plane(1), plane(2), 1.0f) - plane(1), at);
    EXPECT_EQ(std::find(plane(2), plane(0) + 75, 1.0f) - plane(2), at);
    moved |= at != 12;
  }
  EXPECT_TRUE(moved);
}

}  // namespace
}  // namespace zero
