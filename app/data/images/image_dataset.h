// ImageDataset: images with a class each; every image is a row.
//
//   ImageDataset train(read_mnist("data/mnist", "data.path"), 0, 8000, "data.path");
//   ImageDataset roses(read_image_folder("flowers", 3, "data.path"), 0, 3000, "data.path",
//                      {.mean = {0.5}, .deviation = {0.5}});
//
// An input is (v / 255 - mean) / std of each byte v, as after torchvision's ToTensor and Normalize. A target is a
// class. Local.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/numbers/choice.h"

#include "app/data/images/labelled_images.h"
#include "app/data/sample/row_dataset.h"

namespace zero {

// A random change of a training image, drawn again each time. Shift: by -2 to 2 pixels along each axis; new pixels are
// bytes of 0. Flip: mirrors left and right with probability 1/2.
enum class Augment { kNone, kShift, kFlip, kShiftFlip };
// Words of data.augment.
inline constexpr std::array<Choice<Augment>, 4> kAugments{{{"none", Augment::kNone},
                                                           {"shift", Augment::kShift},
                                                           {"flip", Augment::kFlip},
                                                           {"shift_flip", Augment::kShiftFlip}}};

struct ImageInputs {
  Augment augment = Augment::kNone;  // only for fill_training()
  // a number for each channel, or one number for all channels; empty: 0 and 1
  std::vector<double> mean{}, deviation{};
};

class ImageDataset : public RowDataset {
 public:
  // Copies images [begin, end).
  ImageDataset(const LabelledImages& images, std::int64_t begin, std::int64_t end, std::string_view key,
               const ImageInputs& inputs = {});

  SampleShape shape() const override;
  std::string show(std::int64_t sample, std::size_t columns) const override;
  std::string name_of(double target) const override;
  std::int64_t fill(std::span<const std::int64_t> samples, Batch& batch) const override;
  std::int64_t fill_training(std::span<const std::int64_t> samples, std::uint64_t seed, std::int64_t first,
                             Batch& batch) const override;
  // Returns channels, size, rescale_factor, image_mean, image_std and classes, as transformers' image processors name
  // them.
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
  std::vector<std::int64_t> numbers_;  // the images' numbers in the data
  std::int64_t channels_, height_, width_;
  std::int64_t num_features_;
  bool fitted_;
  ImageInputs inputs_;
  std::vector<float> values_;  // [channels, 256]: the input for each byte
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
  std::vector<std::string> classes_;  // names of the classes; empty: they have no names
};

}  // namespace zero
