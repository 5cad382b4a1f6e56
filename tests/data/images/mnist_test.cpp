#include "app/data/images/mnist.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/data/open_data.h"
#include "tests/data/make_files.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

const std::string kImages = "t10k-images-idx3-ubyte";
const std::string kLabels = "t10k-labels-idx1-ubyte";

// Three images of 2 x 1 pixels with labels 4, 0, 9.
void write_three(const TemporaryFolder& folder, const std::string& prefix = "t10k") {
  folder.write(prefix + "-images-idx3-ubyte", idx_images(3, 2, 1, std::string("\x00\xff\x33\x66\x99\xcc", 6)));
  folder.write(prefix + "-labels-idx1-ubyte", idx_labels(std::string("\4\0\11", 3)));
}

std::string refusal(const std::filesystem::path& path) {
  return message_of<ConfigError>([&] { read_mnist(path, "data.path"); });
}

TEST(Mnist, TakesFolderOrImagesFile) {
  const TemporaryFolder folder;
  write_three(folder);
  for (const auto& path : {folder.path(), folder / kImages}) {
    const auto images = read_mnist(path, "data.path");
    EXPECT_EQ(images.size(), 3);
    EXPECT_EQ(images.num_features(), 2);
    EXPECT_EQ(images.labels, (std::vector<std::int32_t>{4, 0, 9}));
  }
}

TEST(Mnist, EitherFileMayBeCompressed) {
  const TemporaryFolder folder;
  folder.write(kImages + ".gz", gzipped(idx_images(1, 1, 2, "ab")));
  folder.write(kLabels, idx_labels("\1"));
  EXPECT_EQ(read_mnist(folder.path(), "data.path").pixels, (std::vector<std::uint8_t>{'a', 'b'}));
}

TEST(Mnist, TheTrainingPairIsPreferred) {
  const TemporaryFolder folder;
  write_three(folder);
  folder.write("train-images-idx3-ubyte", idx_images(1, 1, 1, "a"));
  folder.write("train-labels-idx1-ubyte", idx_labels("\1"));
  EXPECT_EQ(read_mnist(folder.path(), "data.path").size(), 1);
  EXPECT_EQ(read_mnist(folder / kImages, "data.path").size(), 3);
}

TEST(Mnist, PrefersTestPairForValidation) {
  const TemporaryFolder folder;
  const auto taken = [&] { return read_mnist(folder.path(), "data.validation").pixels.front(); };
  const auto write = [&](const std::string& prefix, const std::string& pixel) {
    folder.write(prefix + "-images-idx3-ubyte", idx_images(1, 1, 1, pixel));
    folder.write(prefix + "-labels-idx1-ubyte", idx_labels("\1"));
  };
  write("train", "a");
  EXPECT_EQ(taken(), 'a') << "the only file";
  write("validation", "b");
  EXPECT_EQ(taken(), 'b') << "preferred to the training file";
  write("qmnist", "c");
  write("t10k", "d");
  EXPECT_EQ(taken(), 'd') << "MNIST's own";
  EXPECT_EQ(read_mnist(folder.path(), "data.path").pixels.front(), 'a');
  EXPECT_EQ(read_mnist(folder / "train-images-idx3-ubyte", "data.validation").pixels.front(), 'a')
      << "the path of a file is taken as it is";
}

TEST(Mnist, OneFolderHoldsBothPublishedSets) {
  const TemporaryFolder folder;
  write_three(folder, "train");
  folder.write("t10k-images-idx3-ubyte", idx_images(2, 2, 1, "abcd"));
  folder.write("t10k-labels-idx1-ubyte", idx_labels(std::string("\0\4", 2)));
  const Corpus corpus =
      open_data({.kind = DataKind::kMnist, .path = folder.path(), .validation = folder.path(), .classes = 10});
  EXPECT_EQ(corpus.train->size(), 3);
  EXPECT_EQ(corpus.validation->size(), 2);
}

TEST(Mnist, TrainingImagesAreNotHeldOut) {
  const TemporaryFolder folder;
  write_three(folder, "train");
  std::filesystem::create_symlink(folder.path(), folder / "link");
  const std::filesystem::path images = folder / "train-images-idx3-ubyte";
  const auto said = [&](const std::filesystem::path& path, const std::filesystem::path& validation) {
    return message_of<ConfigError>(
        [&] { open_data({.kind = DataKind::kMnist, .path = path, .validation = validation, .classes = 10}); });
  };
  EXPECT_EQ(said(folder.path(), folder.path()),
            "data.validation = " + images.native() +
                ": data.path also reads it, and validation needs samples that the model has not learned\n  set other "
                "data, or a fraction such as 0.1 to hold out the end of data.path");
  EXPECT_TRUE(says(said(folder.path(), images), "data.path also reads it"));
  EXPECT_TRUE(says(said(images, folder / "link"), "data.path also reads it"));
}

TEST(Mnist, BadLabelNamesTheLabelsFile) {
  const TemporaryFolder folder;
  folder.write(kImages, idx_images(5, 1, 1, "abcde"));
  folder.write(kLabels, idx_labels(std::string("\0\1\2\4\1", 5)));
  const auto opened = [&](std::int64_t classes) {
    return open_data({.kind = DataKind::kMnist, .path = folder.path(), .validation = 0.0, .classes = classes});
  };
  const std::string labels = (folder / kLabels).native();
  const Corpus corpus = opened(0);
  ASSERT_EQ(corpus.notes.size(), 1U);
  EXPECT_TRUE(says(corpus.notes[0],
                   "1 of the 5 classes has no training sample: the largest label is 4, label 3 of " + labels + ";"));
  EXPECT_EQ(corpus.shape().classes, 5);
  EXPECT_EQ(opened(12).shape().classes, 12) << "also classes beyond the largest label";
  EXPECT_TRUE(opened(12).notes.empty());
  EXPECT_TRUE(says(message_of<ConfigError>([&] { opened(4); }),
                   "data.path = label 3 of " + labels + ": the label 4 is none of data.classes = 4"));
}

TEST(Mnist, WhatIsMissingIsNamed) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(refusal(folder.path()), "no file *images-idx3-ubyte(.gz) is in this folder"));
  EXPECT_TRUE(says(refusal(folder / "none"), "no such file"));
  EXPECT_TRUE(says(refusal(folder / kImages), "no such file"));
  folder.write(kImages, idx_images(1, 1, 1, "a"));
  EXPECT_TRUE(says(refusal(folder.path()), "its labels are missing: no t10k-labels-idx1-ubyte(.gz) beside it"));
  EXPECT_TRUE(says(refusal(folder.write("digits", "x")), "the name does not contain images-idx3-ubyte"));
}

TEST(Mnist, ImagesAndLabelsMustMatch) {
  const TemporaryFolder folder;
  write_three(folder);
  folder.write(kLabels, idx_labels("\1\2"));
  const auto message = refusal(folder.path());
  EXPECT_TRUE(says(message, "holds 3 images, but "));
  EXPECT_TRUE(says(message, "t10k-labels-idx1-ubyte holds 2 labels"));
}

TEST(Mnist, NoImageIsRefused) {
  const TemporaryFolder folder;
  folder.write(kImages, idx_images(0, 28, 28, ""));
  folder.write(kLabels, idx_labels(""));
  EXPECT_TRUE(says(refusal(folder.path()), "holds no image"));
}

}  // namespace
}  // namespace zero
