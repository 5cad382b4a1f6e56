// Labelled images, a row each: bytes scaled to [0, 1], and a class.
//
//   const auto images = read_labelled_images("data/mnist", "data.path");     // a folder, or its images file
//   ImageDataset train(images, 0, 8000, "data.path");
//
// A folder must hold a pair PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte, each with or without .gz; of several
// pairs "train" is taken. For an images file the labels are looked for beside it. ConfigError(key) for what is missing,
// damaged, or does not belong together. Local.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "zero/data/row_dataset.h"

namespace zero {

struct LabelledImages {
  std::string path;               // the images file
  std::int64_t num_features = 0;  // pixels per image
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> labels;  // one per image

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

LabelledImages read_labelled_images(const std::filesystem::path& path, std::string_view key);

class ImageDataset : public RowDataset {
 public:
  // A copy of images [begin, end). `shifts`: fill_training() moves each by -2 to 2 pixels each way, what comes in from the
  // border being 0; ConfigError under "data.augment" where images are not square.
  ImageDataset(const LabelledImages& images, std::int64_t begin, std::int64_t end, std::string_view key,
               bool shifts = false);

  SampleShape shape() const override;
  std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override;
  std::int64_t fill_training(std::span<const std::int64_t> samples, std::uint64_t seed, std::int64_t first,
                             Batch& batch) const override;
  void require_classes(std::int64_t classes, std::string_view key) const override;

 private:
  std::string path_;
  std::int64_t begin_;
  std::int64_t num_features_;
  std::int64_t side_ = 0;  // pixels; 0: images are not shifted
  std::vector<std::uint8_t> pixels_;
  std::vector<std::uint8_t> labels_;
};

}  // namespace zero
