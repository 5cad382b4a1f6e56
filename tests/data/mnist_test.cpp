#include "zero/data/mnist.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "zero/base/error.h"

#include "tests/data/make_files.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

namespace zero {
namespace {

const std::string kImages = "t10k-images-idx3-ubyte";
const std::string kLabels = "t10k-labels-idx1-ubyte";

// Three images of 2 x 1 pixels, labelled 4, 0, 9.
void write_three(const TemporaryFolder& folder, const std::string& prefix = "t10k") {
  folder.write(prefix + "-images-idx3-ubyte", idx_images(3, 2, 1, std::string("\x00\xff\x33\x66\x99\xcc", 6)));
  folder.write(prefix + "-labels-idx1-ubyte", idx_labels(std::string("\4\0\11", 3)));
}

std::string refusal(const std::filesystem::path& path) {
  return message_of<ConfigError>([&] { read_mnist(path, "data.path"); });
}

TEST(Mnist, AFolderOrItsImagesFileMayBeGiven) {
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

TEST(Mnist, WhatIsMissingIsNamed) {
  const TemporaryFolder folder;
  EXPECT_TRUE(says(refusal(folder.path()), "no file *images-idx3-ubyte(.gz) is in this folder"));
  EXPECT_TRUE(says(refusal(folder / "none"), "no such file"));
  EXPECT_TRUE(says(refusal(folder / kImages), "no such file"));
  folder.write(kImages, idx_images(1, 1, 1, "a"));
  EXPECT_TRUE(says(refusal(folder.path()), "its labels are missing: no t10k-labels-idx1-ubyte(.gz) beside it"));
  EXPECT_TRUE(says(refusal(folder.write("digits", "x")), "the name does not contain images-idx3-ubyte"));
}

TEST(Mnist, ImagesAndLabelsMustBeAsMany) {
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
