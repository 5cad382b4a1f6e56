#include "app/data/images/image_dataset.h"

#include <algorithm>
#include <span>
#include <variant>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

#include "app/data/sample/picture.h"
#include "app/data/sample/shown_sample.h"

namespace zero {
namespace {

constexpr std::int64_t kMostShift = 2;  // pixels
constexpr std::int64_t kShifts = 2 * kMostShift + 1;
constexpr std::uint64_t kShiftSeed = 0x5368696674;  // gives shifts other random numbers than the order of samples
constexpr std::uint64_t kFlipSeed = 0x466c6970;
constexpr std::size_t kBytes = 256;
constexpr int kBilinear = 2;  // Pillow's number of this filter, as transformers writes it

bool shifts(Augment augment) {
  return augment == Augment::kShift || augment == Augment::kShiftFlip;
}
bool flips(Augment augment) {
  return augment == Augment::kFlip || augment == Augment::kShiftFlip;
}

// Returns one number for each channel.
std::vector<double> of_channels(const std::vector<double>& numbers, std::int64_t channels, double usual) {
  const auto count = static_cast<std::size_t>(channels);
  ZERO_CHECK(numbers.size() <= 1 || numbers.size() == count, "{} numbers for {} channels", numbers.size(), channels);
  return numbers.size() > 1 ? numbers : std::vector<double>(count, numbers.empty() ? usual : numbers.front());
}

}  // namespace

ImageDataset::ImageDataset(const LabelledImages& images, std::int64_t begin, std::int64_t end, std::string_view key,
                           const ImageInputs& inputs)
    : RowDataset(end - begin, key, images.path),
      path_(images.path),
      labels_path_(images.labels_path),
      channels_(images.channels),
      height_(images.height),
      width_(images.width),
      num_features_(images.num_features()),
      fitted_(images.fitted),
      inputs_{.augment = inputs.augment,
              .mean = of_channels(inputs.mean, images.channels, 0),
              .deviation = of_channels(inputs.deviation, images.channels, 1)},
      classes_(images.classes) {
  ZERO_CHECK(0 <= begin && end <= images.size(), "images [{}, {}) of {}", begin, end, images.size());
  for (std::int64_t i = begin; i < end; ++i) numbers_.push_back(images.number_of(i));
  pixels_.assign(images.pixels.begin() + begin * num_features_, images.pixels.begin() + end * num_features_);
  labels_.assign(images.labels.begin() + begin, images.labels.begin() + end);
  for (std::size_t channel = 0; channel < inputs_.mean.size(); ++channel) {
    const auto mean = static_cast<float>(inputs_.mean[channel]),
               deviation = static_cast<float>(inputs_.deviation[channel]);
    for (std::size_t byte = 0; byte < kBytes; ++byte)
      values_.push_back((static_cast<float>(byte) / 255.0F - mean) / deviation);
  }
}

SampleShape ImageDataset::shape() const {
  return {.features = num_features_,
          .channels = channels_,
          .height = height_,
          .width = width_,
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

// The image is flipped first. Then the pixel at (row, column) is copied from (row - down, column - right).
float* ImageDataset::write(std::int64_t sample, const Change& change, float* out) const {
  const std::uint8_t* plane = pixels_.data() + sample * num_features_;
  for (std::int64_t channel = 0; channel < channels_; ++channel, plane += height_ * width_) {
    const float* const values = values_.data() + channel * static_cast<std::int64_t>(kBytes);
    for (std::int64_t row = 0; row < height_; ++row) {
      const std::int64_t from_row = row - change.down;
      for (std::int64_t column = 0; column < width_; ++column) {
        const std::int64_t shifted = column - change.right;
        const std::int64_t from_column = change.flips ? width_ - 1 - shifted : shifted;
        const bool inside = from_row >= 0 && from_row < height_ && from_column >= 0 && from_column < width_;
        *out++ = values[inside ? plane[from_row * width_ + from_column] : 0];
      }
    }
  }
  return out;
}

std::span<float> ImageDataset::begin_batch(std::span<const std::int64_t> samples, Batch& batch) const {
  const auto rows = static_cast<std::int64_t>(samples.size());
  auto& target = batch.target.reset<std::int64_t>({rows});
  for (std::size_t row = 0; row < samples.size(); ++row) {
    ZERO_CHECK(samples[row] >= 0 && samples[row] < size(), "image {} of {}", samples[row], size());
    target[row] = labels_[static_cast<std::size_t>(samples[row])];
  }
  return batch.input.reset<float>({rows, num_features_});
}

std::int64_t ImageDataset::fill(std::span<const std::int64_t> samples, Batch& batch) const {
  float* out = begin_batch(samples, batch).data();
  for (const std::int64_t sample : samples) out = write(sample, {}, out);
  return static_cast<std::int64_t>(samples.size());
}

ImageDataset::Change ImageDataset::change_of(std::uint64_t seed, std::int64_t g) const {
  Change change;
  if (shifts(inputs_.augment)) {
    const std::int64_t shift = shuffled_offset(seed ^ kShiftSeed, g, kShifts * kShifts);
    change.down = shift / kShifts - kMostShift;
    change.right = shift % kShifts - kMostShift;
  }
  if (flips(inputs_.augment)) change.flips = shuffled_offset(seed ^ kFlipSeed, g, 2) == 1;
  return change;
}

std::int64_t ImageDataset::fill_training(std::span<const std::int64_t> samples, std::uint64_t seed, std::int64_t first,
                                         Batch& batch) const {
  float* out = begin_batch(samples, batch).data();
  for (std::int64_t g = first; const std::int64_t sample : samples) out = write(sample, change_of(seed, g++), out);
  return static_cast<std::int64_t>(samples.size());
}

std::string ImageDataset::preprocessing() const {
  nlohmann::ordered_json json{{"do_convert_rgb", channels_ == 3}, {"num_channels", channels_}};
  if (channels_ == 1) json["grey"] = "ITU-R 601: (19595 R + 38470 G + 7471 B + 32768) >> 16";
  json["do_resize"] = fitted_;
  json["do_center_crop"] = fitted_;
  if (fitted_ && height_ == width_) {
    json["size"] = {{"shortest_edge", height_}};
  } else {
    json["size"] = {{"height", height_}, {"width", width_}};
  }
  if (fitted_) {
    json["keep_aspect_ratio"] = true;  // the picture covers the size, and is cropped
    json["resample"] = kBilinear;
    json["crop_size"] = {{"height", height_}, {"width", width_}};
  }
  const auto is_not = [](double number) { return [number](double value) { return value != number; }; };
  json["do_rescale"] = true;
  json["rescale_factor"] = 1.0 / 255;
  json["do_normalize"] =
      std::ranges::any_of(inputs_.mean, is_not(0)) || std::ranges::any_of(inputs_.deviation, is_not(1));
  json["image_mean"] = inputs_.mean;
  json["image_std"] = inputs_.deviation;
  for (std::size_t i = 0; i < classes_.size(); ++i) json["id2label"][std::to_string(i)] = classes_[i];
  // A class name that is not UTF-8 must not end the run.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void ImageDataset::require_classes(std::int64_t classes, std::string_view key) const {
  const auto found = std::find_if(labels_.begin(), labels_.end(), [&](std::int32_t label) { return label >= classes; });
  if (found == labels_.end()) return;
  // `classes` is an mlp's last size: other models of images take their number of classes from the data.
  const std::int64_t number = numbers_[static_cast<std::size_t>(found - labels_.begin())];
  throw ConfigError(key, fmt::format("[..., {}]", classes),
                    fmt::format("the last size is the number of classes, and {} is {}",
                                place_of_label(number, labels_path_, path_), *found),
                    fmt::format("The data needs at least {0}: end the list with {0}.", shape().classes));
}

}  // namespace zero
