// LabelledImages: images of one size and their classes, in order, as a reader of files gives them to ImageDataset. Local.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/data/sample/held_out.h"

namespace zero {

struct LabelledImages {
  std::string path;  // for messages
  std::int64_t channels = 1;
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;     // [images, channels, height, width]
  std::vector<std::int32_t> labels;     // one an image
  std::vector<std::string> classes{};   // their names; empty: they have none
  std::string labels_path{};            // the file of the labels; empty: they have no file of their own
  std::vector<std::int64_t> numbers{};  // of the images in the data; empty: as they are
  bool fitted = false;                  // brought to this size from pictures of any

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t num_features() const { return channels * height * width; }
  // Brings the images into another order, by their indices; an empty order leaves them.
  void reorder(const std::vector<std::int64_t>& order) {
    if (order.empty()) return;
    std::vector<std::int64_t> moved;
    for (const std::int64_t i : order) moved.push_back(number_of(i));
    take_in_order(pixels, order, num_features());
    take_in_order(labels, order);
    numbers = std::move(moved);
  }
  // An image's place in the data.
  std::int64_t number_of(std::int64_t i) const { return numbers.empty() ? i : numbers[static_cast<std::size_t>(i)]; }
};

// Where a label stands: "label 8 of t10k-labels-idx1-ubyte", or "image 8 of flowers" without a file of labels.
inline std::string place_of_label(std::int64_t i, const std::string& labels_path, const std::string& path) {
  return labels_path.empty() ? fmt::format("image {} of {}", i, path) : fmt::format("label {} of {}", i, labels_path);
}

}  // namespace zero
