// Labelled images, a row each: bytes scaled to [0, 1], and a class.
//
//   ImageDataset train(read_mnist("data/mnist", "data.path"), 0, 8000, "data.path");
//   ImageDataset roses(read_image_folder("flowers", 3, "data.path"), 0, 3000, "data.path");
//
// Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zero/data/labelled_images.h"
#include "zero/data/row_dataset.h"

namespace zero {

class ImageDataset : public RowDataset {
 public:
  // A copy of images [begin, end). `shifts`: fill_training() moves each by -2 to 2 pixels each way, what comes in from the
  // border being 0; ConfigError under "data.augment" where images are not square.
  ImageDataset(const LabelledImages& images, std::int64_t begin, std::int64_t end, std::string_view key,
               bool shifts = false);

  SampleShape shape() const override;
  std::string show(std::int64_t sample, std::size_t columns) const override;
  std::string name_of(double target) const override;
  std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override;
  std::int64_t fill_training(std::span<const std::int64_t> samples, std::uint64_t seed, std::int64_t first,
                             Batch& batch) const override;
  void require_classes(std::int64_t classes, std::string_view key) const override;

 private:
  std::string path_, labels_path_;
  std::int64_t begin_;
  std::int64_t channels_, height_, width_;
  std::int64_t num_features_;
  std::int64_t side_ = 0;  // pixels; 0: images are not shifted
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
  std::vector<std::string> classes_;  // their names; empty: they have none
};

}  // namespace zero
