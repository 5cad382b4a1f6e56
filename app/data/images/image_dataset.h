// ImageDataset: labelled images, a row each. An input is (v / 255 - mean) / std of each byte v, as torchvision's ToTensor and
// Normalize make it; a target is a class.
//
//   ImageDataset train(read_mnist("data/mnist", "data.path"), 0, 8000, "data.path");
//   ImageDataset roses(read_image_folder("flowers", 3, "data.path"), 0, 3000, "data.path", {.mean = {0.5}, .deviation = {0.5}});
//
// Local.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "app/data/images/labelled_images.h"
#include "app/data/sample/row_dataset.h"

namespace zero {

// Changes of a training image, drawn anew each time. Shift: by -2 to 2 pixels each way, the border filled with bytes of 0.
// Flip: left and right change places in every second image.
enum class Augment { kNone, kShift, kFlip, kShiftFlip };

struct ImageInputs {
  Augment augment = Augment::kNone;  // of fill_training() only
  // A number for each channel, or one number for all channels; empty: 0 and 1.
  std::vector<double> mean{}, deviation{};
};

class ImageDataset : public RowDataset {
 public:
  // A copy of images [begin, end).
  ImageDataset(const LabelledImages& images, std::int64_t begin, std::int64_t end, std::string_view key,
               const ImageInputs& inputs = {});

  SampleShape shape() const override;
  std::string show(std::int64_t sample, std::size_t columns) const override;
  std::string name_of(double target) const override;
  std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override;
  std::int64_t fill_training(std::span<const std::int64_t> samples, std::uint64_t seed, std::int64_t first,
                             Batch& batch) const override;
  // In the words of transformers' image processors: channels, size, rescale_factor, image_mean, image_std, classes.
  std::string preprocessing() const override;
  void require_classes(std::int64_t classes, std::string_view key) const override;

 private:
  struct Change {
    std::int64_t down = 0, right = 0;
    bool flips = false;
  };
  Change change_of(std::uint64_t seed, std::int64_t g) const;
  float* write(std::int64_t sample, const Change& change, float* out) const;
  std::span<float> begin_batch(std::span<const std::int64_t> samples, Batch& batch) const;

  std::string path_, labels_path_;
  std::vector<std::int64_t> numbers_;  // of the images in the data
  std::int64_t channels_, height_, width_;
  std::int64_t num_features_;
  bool fitted_;
  ImageInputs inputs_;
  std::vector<float> values_;  // [channels, 256]: what a byte becomes
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
  std::vector<std::string> classes_;  // their names; empty: they have none
};

}  // namespace zero
