// LabelledImages: images of one size and their classes, in order, as a reader of files gives them to ImageDataset. Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace zero {

struct LabelledImages {
  std::string path;  // for messages
  std::int64_t channels = 1;
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;    // [images, channels, height, width]
  std::vector<std::int32_t> labels;    // one an image
  std::vector<std::string> classes{};  // their names; empty: they have none
  std::string labels_path{};           // the file of the labels; empty: they have no file of their own

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t num_features() const { return channels * height * width; }
};

// Where a label stands: "label 8 of t10k-labels-idx1-ubyte", or "image 8 of flowers" without a file of labels.
inline std::string place_of_label(std::int64_t i, const std::string& labels_path, const std::string& path) {
  return labels_path.empty() ? fmt::format("image {} of {}", i, path) : fmt::format("label {} of {}", i, labels_path);
}

}  // namespace zero
