#include "zero/data/image_dataset.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>

#include <fmt/format.h>

#include "zero/base/check.h"
#include "zero/base/file.h"
#include "zero/data/idx.h"

namespace zero {
namespace {

constexpr std::string_view kImages = "images-idx3-ubyte";
constexpr std::string_view kLabels = "labels-idx1-ubyte";

struct Pair {
  std::filesystem::path images;
  std::filesystem::path labels;
};

// The images file of a folder.
std::filesystem::path find_images(const std::filesystem::path& folder, std::string_view key) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename().native().find(kImages) != std::string::npos)
      names.push_back(entry->path().filename().native());
  if (error) throw ConfigError(key, folder.native(), error.message(), "Check the folder's permissions.");
  if (names.empty())
    throw ConfigError(key, folder.native(), fmt::format("no file *{}(.gz) is in this folder", kImages),
                      "Give the folder that holds MNIST's IDX files.");
  std::sort(names.begin(), names.end());
  const auto train =
      std::find_if(names.begin(), names.end(), [](const auto& name) { return name.starts_with("train"); });
  return folder / (train != names.end() ? *train : names.front());
}

// Labels are found beside the images: the same name with the other word, compressed or not.
Pair find_pair(const std::filesystem::path& path, std::string_view key) {
  const auto images = std::filesystem::is_directory(path) ? find_images(path, key) : path;
  std::string name = images.filename().native();
  const auto at = name.find(kImages);
  if (at == name.npos) {
    require_input_file(key, images);
    throw ConfigError(key, images.native(),
                      fmt::format("the name does not contain {}, so its labels cannot be found", kImages),
                      "Give a folder or an images file with MNIST's names.");
  }
  name = name.substr(0, at).append(kLabels);
  for (const char* const ending : {"", ".gz"}) {
    const auto labels = images.parent_path() / (name + ending);
    if (std::filesystem::exists(labels)) return {images, labels};
  }
  require_input_file(key, images);
  throw ConfigError(key, images.native(), fmt::format("its labels are missing: no {}(.gz) beside it", name),
                    "Put both into one folder.");
}

constexpr std::int64_t kMostShift = 2;  // pixels
constexpr std::int64_t kShifts = 2 * kMostShift + 1;
constexpr std::uint64_t kShiftSeed = 0x5368696674;  // a seed's shifts are other draws than its order

// What comes in from the border is 0.
void move_image(std::span<float> image, std::int64_t side, std::int64_t down, std::int64_t right) {
  const std::vector<float> before(image.begin(), image.end());
  for (std::int64_t row = 0; row < side; ++row) {
    for (std::int64_t column = 0; column < side; ++column) {
      const std::int64_t from_row = row - down, from_column = column - right;
      const bool inside = from_row >= 0 && from_row < side && from_column >= 0 && from_column < side;
      image[static_cast<std::size_t>(row * side + column)] =
          inside ? before[static_cast<std::size_t>(from_row * side + from_column)] : 0.0f;
    }
  }
}

}  // namespace

LabelledImages read_labelled_images(const std::filesystem::path& path, std::string_view key) {
  const Pair pair = find_pair(path, key);
  IdxArray images = read_idx(pair.images, 3, key);
  IdxArray labels = read_idx(pair.labels, 1, key);
  if (images.shape[0] != labels.shape[0])
    throw ConfigError(
        key, pair.images.native(),
        fmt::format("holds {} images, but {} holds {} labels", images.shape[0], pair.labels.native(), labels.shape[0]),
        "The two files must come from one set.");
  if (images.values.empty())
    throw ConfigError(key, pair.images.native(), "holds no image", "Give a set with images in it.");
  return {.path = pair.images.native(),
          .num_features = images.shape[1] * images.shape[2],
          .pixels = std::move(images.values),
          .labels = std::move(labels.values)};
}

ImageDataset::ImageDataset(const LabelledImages& images, std::int64_t begin, std::int64_t end, std::string_view key,
                           bool shifts)
    : RowDataset(end - begin, key, images.path), path_(images.path), begin_(begin), num_features_(images.num_features) {
  ZERO_CHECK(0 <= begin && end <= images.size(), "images [{}, {}) of {}", begin, end, images.size());
  pixels_.assign(images.pixels.begin() + begin * num_features_, images.pixels.begin() + end * num_features_);
  labels_.assign(images.labels.begin() + begin, images.labels.begin() + end);
  if (!shifts) return;
  side_ = std::llround(std::sqrt(static_cast<double>(num_features_)));
  if (side_ * side_ != num_features_)
    throw ConfigError("data.augment", "shift", fmt::format("images of {} pixels are not square", num_features_),
                      "use none, or square images");
}

SampleShape ImageDataset::shape() const {
  return {.features = num_features_, .classes = *std::max_element(labels_.begin(), labels_.end()) + 1};
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
  for (std::int64_t g = first; g < first + rows; ++g, out += num_features_) {
    const std::int64_t shift = shuffled_offset(seed ^ kShiftSeed, g, kShifts * kShifts);
    move_image({&*out, static_cast<std::size_t>(num_features_)}, side_, shift / kShifts - kMostShift,
               shift % kShifts - kMostShift);
  }
  return rows;
}

void ImageDataset::require_classes(std::int64_t classes, std::string_view key) const {
  const auto found = std::find_if(labels_.begin(), labels_.end(), [&](std::uint8_t label) { return label >= classes; });
  if (found == labels_.end()) return;
  throw ConfigError(key, fmt::format("{}", classes),
                    fmt::format("too few classes: image {} of {} has the label {}", begin_ + (found - labels_.begin()),
                                path_, *found),
                    fmt::format("The data needs at least {}.", shape().classes));
}

}  // namespace zero
