// MNIST and its relatives: a file of images and a file of labels, both IDX.
//
//   const LabelledImages digits = read_mnist("data/mnist", "data.path");     // a folder, or its images file
//
// A folder must hold a pair PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte, each with or without .gz. Of several
// pairs "train" is taken; under the key "data.validation" it is "t10k", MNIST's test set, else one that is not "train". For an
// images file the labels are looked for beside it. Local.
#pragma once

#include <filesystem>
#include <string_view>

#include "app/data/images/labelled_images.h"

namespace zero {

// ConfigError(key) for what is missing, damaged, or does not belong together.
LabelledImages read_mnist(const std::filesystem::path& path, std::string_view key);

}  // namespace zero
