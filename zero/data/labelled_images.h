// LabelledImages: images of one size and their classes, in order, as a reader of files gives them to ImageDataset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace zero {

struct LabelledImages {
  std::string path;  // for messages
  std::int64_t channels = 1;
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> pixels;    // [images, channels, height, width]
  std::vector<std::int32_t> labels;    // one an image
  std::vector<std::string> classes{};  // their names; empty: they have none

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  std::int64_t num_features() const { return channels * height * width; }
};

}  // namespace zero
