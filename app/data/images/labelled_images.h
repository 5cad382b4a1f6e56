// LabelledImages: images of one size and their classes, in order.
//
//   LabelledImages images = read_mnist("data/mnist", "data.path");
//
// Readers of files return it, and ImageDataset copies it. Values; Local.
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
  std::vector<std::int32_t> labels;     // class of each image
  std::vector<std::string> classes{};   // names of the classes; empty: they have no names
  std::string labels_path{};            // file of the labels; empty: they have no file of their own
  std::vector<std::int64_t> numbers{};  // the images' numbers in the data; empty: the images are in the data's order
  bool fitted = false;                  // were the pictures resized?

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t num_features() const { return channels * height * width; }
  // Reorders the images: `order` has their indices in the new order. An empty order changes nothing.
  void reorder(const std::vector<std::int64_t>& order) {
    if (order.empty()) return;
    std::vector<std::int64_t> moved;
    for (const std::int64_t i : order) moved.push_back(number_of(i));
    take_in_order(pixels, order, num_features());
    take_in_order(labels, order);
    numbers = std::move(moved);
  }
  // Returns an image's number in the data.
  std::int64_t number_of(std::int64_t i) const { return numbers.empty() ? i : numbers[static_cast<std::size_t>(i)]; }
};

// Returns the place of a label: "label 8 of t10k-labels-idx1-ubyte" or, without a file of labels, "image 8 of flowers".
inline std::string place_of_label(std::int64_t i, const std::string& labels_path, const std::string& path) {
  return labels_path.empty() ? fmt::format("image {} of {}", i, path) : fmt::format("label {} of {}", i, labels_path);
}

}  // namespace zero
