// read_mnist(): reads MNIST and similar data: an IDX file of images and an IDX file of labels.
//
//   const LabelledImages digits = read_mnist("data/mnist", "data.path");     // a folder, or its images file
//
// A folder must hold a pair PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte, each with or without .gz. If there
// are several pairs, "train" is read. For the key "data.validation" it is "t10k", MNIST's test set, or another pair
// that is not "train". The labels of a file of images are in the same folder. Local.
#pragma once

#include <filesystem>
#include <string_view>

#include "app/data/images/labelled_images.h"

namespace zero {

// Throws ConfigError(key) if a file is missing or damaged, or if images and labels do not match.
LabelledImages read_mnist(const std::filesystem::path& path, std::string_view key);

}  // namespace zero
