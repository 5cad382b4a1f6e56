#include "zero/data/image_dataset.h"

#include <algorithm>
#include <span>
#include <variant>

#include <fmt/format.h>

#include "zero/base/check.h"
#include "zero/base/error.h"
#include "zero/data/picture.h"
#include "zero/data/shown_sample.h"

namespace zero {
namespace {

constexpr std::int64_t kMostShift = 2;  // pixels
constexpr std::int64_t kShifts = 2 * kMostShift + 1;
constexpr std::uint64_t kShiftSeed = 0x5368696674;  // a seed's shifts are other draws than its order

// What comes in from the border is 0.
void move_plane(std::span<float> plane, std::int64_t side, std::int64_t down, std::int64_t right) {
  const std::vector<float> before(plane.begin(), plane.end());
  for (std::int64_t row = 0; row < side; ++row) {
    for (std::int64_t column = 0; column < side; ++column) {
      const std::int64_t from_row = row - down, from_column = column - right;
      const bool inside = from_row >= 0 && from_row < side && from_column >= 0 && from_column < side;
      plane[static_cast<std::size_t>(row * side + column)] =
          inside ? before[static_cast<std::size_t>(from_row * side + from_column)] : 0.0f;
    }
  }
}

}  // namespace

ImageDataset::ImageDataset(const LabelledImages& images, std::int64_t begin, std::int64_t end, std::string_view key,
                           bool shifts)
    : RowDataset(end - begin, key, images.path),
      path_(images.path),
      labels_path_(images.labels_path),
      begin_(begin),
      channels_(images.channels),
      height_(images.height),
      width_(images.width),
      num_features_(images.num_features()),
      classes_(images.classes) {
  ZERO_CHECK(0 <= begin && end <= images.size(), "images [{}, {}) of {}", begin, end, images.size());
  pixels_.assign(images.pixels.begin() + begin * num_features_, images.pixels.begin() + end * num_features_);
  labels_.assign(images.labels.begin() + begin, images.labels.begin() + end);
  if (!shifts) return;
  if (images.height != images.width)
    throw ConfigError("data.augment", "shift",
                      fmt::format("images of {} x {} pixels are not square", images.height, images.width),
                      "use none, or square images");
  side_ = images.width;
}

SampleShape ImageDataset::shape() const {
  return {.features = num_features_,
          .channels = channels_,
          .classes = *std::max_element(labels_.begin(), labels_.end()) + 1};
}

std::string ImageDataset::show(std::int64_t sample, std::size_t columns) const {
  ZERO_CHECK(sample >= 0 && sample < size(), "image {} of {}", sample, size());
  const auto first = pixels_.begin() + sample * num_features_;
  return shown_picture(
      {.channels = channels_, .height = height_, .width = width_, .pixels = {first, first + num_features_}}, columns);
}

std::string ImageDataset::name_of(double target) const {
  return shown_class(classes_, static_cast<std::int64_t>(target));
}

std::int64_t ImageDataset::fill(std::span<const std::int64_t> samples, Batch& batch) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  auto& input = batch.input.reset<float>({rows, num_features_});
  auto& target = batch.target.reset<std::int64_t>({rows});
  auto out = input.begin();
  for (std::size_t row = 0; row < samples.size(); ++row) {
    ZERO_CHECK(samples[row] >= 0 && samples[row] < size(), "image {} of {}", samples[row], size());
    const auto first = pixels_.begin() + samples[row] * num_features_;
    out = std::transform(first, first + num_features_, out, [](std::uint8_t pixel) { return pixel / 255.0f; });
    target[row] = labels_[static_cast<std::size_t>(samples[row])];
  }
  return rows;
}

std::int64_t ImageDataset::fill_training(std::span<const std::int64_t> samples, std::uint64_t seed, std::int64_t first,
                                         Batch& batch) const {
  const std::int64_t rows = fill(samples, batch);
  if (side_ == 0) return rows;
  auto out = std::get<std::vector<float>>(batch.input.values).begin();
  const std::int64_t plane = side_ * side_;
  for (std::int64_t g = first; g < first + rows; ++g) {
    const std::int64_t shift = shuffled_offset(seed ^ kShiftSeed, g, kShifts * kShifts);
    for (std::int64_t channel = 0; channel < channels_; ++channel, out += plane)
      move_plane({&*out, static_cast<std::size_t>(plane)}, side_, shift / kShifts - kMostShift,
                 shift % kShifts - kMostShift);
  }
  return rows;
}

void ImageDataset::require_classes(std::int64_t classes, std::string_view key) const {
  const auto found = std::find_if(labels_.begin(), labels_.end(), [&](std::int32_t label) { return label >= classes; });
  if (found == labels_.end()) return;
  // Of an mlp's sizes; no other model of images says how many classes it has.
  throw ConfigError(key, fmt::format("[..., {}]", classes),
                    fmt::format("the last size is the number of classes, and {} is {}",
                                place_of_label(begin_ + (found - labels_.begin()), labels_path_, path_), *found),
                    fmt::format("The data needs at least {0}: end the list with {0}.", shape().classes));
}

}  // namespace zero
