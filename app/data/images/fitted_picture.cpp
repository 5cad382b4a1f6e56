#include "app/data/images/fitted_picture.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "zero/base/error/check.h"

namespace zero {
namespace {

constexpr int kWeightBits = 22;  // bits of a weight's fraction, as in Pillow for 8-bit pixels
constexpr std::int64_t kHalf = std::int64_t{1} << (kWeightBits - 1);

// Resizing along one axis, from `from` to `to` pixels. Only output pixels [begin, begin + count) are wanted.
struct Axis {
  std::int64_t from = 0, to = 0;
  std::int64_t begin = 0, count = 0;

  bool changes() const { return from != to || count != to; }
};

// The input pixels of an output pixel, and their weights.
struct Filter {
  std::int64_t first = 0;
  std::vector<std::int64_t> weights;
};

Filter filter_of(const Axis& axis, std::int64_t output) {
  const double scale = static_cast<double>(axis.from) / static_cast<double>(axis.to);
  const double spread = std::max(scale, 1.0);
  const double center = (static_cast<double>(output) + 0.5) * scale;
  const auto first = std::max<std::int64_t>(static_cast<std::int64_t>(center - spread + 0.5), 0);
  const auto last = std::min(static_cast<std::int64_t>(center + spread + 0.5), axis.from);
  std::vector<double> weights;
  double sum = 0;
  for (std::int64_t x = first; x < last; ++x) {
    const double distance = std::abs((static_cast<double>(x) - center + 0.5) * (1.0 / spread));
    weights.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
    sum += weights.back();
  }
  Filter filter{.first = first, .weights = {}};
  for (const double weight : weights)
    filter.weights.push_back(static_cast<std::int64_t>(0.5 + weight / sum * (1 << kWeightBits)));
  return filter;
}

std::vector<Filter> filters_of(const Axis& axis) {
  std::vector<Filter> filters;
  for (std::int64_t i = 0; i < axis.count; ++i) filters.push_back(filter_of(axis, axis.begin + i));
  return filters;
}

// Returns the weighted sum of pixels that are `stride` bytes apart.
std::uint8_t filtered(const std::uint8_t* pixels, std::int64_t stride, const Filter& filter) {
  std::int64_t sum = kHalf;
  const std::uint8_t* pixel = pixels + filter.first * stride;
  for (const std::int64_t weight : filter.weights) {
    sum += weight * *pixel;
    pixel += stride;
  }
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kWeightBits, 0, 255));
}

Picture with_columns(const Picture& picture, const Axis& axis) {
  Picture result{.channels = picture.channels, .height = picture.height, .width = axis.count, .pixels = {}};
  const std::vector<Filter> filters = filters_of(axis);
  result.pixels.reserve(static_cast<std::size_t>(result.channels * result.height * result.width));
  for (std::int64_t row = 0; row < picture.channels * picture.height; ++row)
    for (const Filter& filter : filters)
      result.pixels.push_back(filtered(picture.pixels.data() + row * picture.width, 1, filter));
  return result;
}

Picture with_rows(const Picture& picture, const Axis& axis) {
  Picture result{.channels = picture.channels, .height = axis.count, .width = picture.width, .pixels = {}};
  const std::vector<Filter> filters = filters_of(axis);
  result.pixels.reserve(static_cast<std::size_t>(result.channels * result.height * result.width));
  for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
    const std::uint8_t* const plane = picture.pixels.data() + channel * picture.height * picture.width;
    for (const Filter& filter : filters)
      for (std::int64_t column = 0; column < picture.width; ++column)
        result.pixels.push_back(filtered(plane + column, picture.width, filter));
  }
  return result;
}

// Returns half of the pixels to cut off. A half of an odd number is rounded to even, as Python's round() does.
std::int64_t cut_before(std::int64_t out) {
  const std::int64_t half = out / 2;
  return out % 2 == 0 ? half : half + half % 2;
}

Axis fitted(std::int64_t from, std::int64_t to, std::int64_t count) {
  return {.from = from, .to = to, .begin = cut_before(to - count), .count = count};
}

}  // namespace

Picture fitted_picture(const Picture& picture, ImageSize size) {
  ZERO_CHECK(size.height > 0 && size.width > 0, "a size of {} x {}", size.height, size.width);
  const bool by_height = size.height * picture.width >= size.width * picture.height;  // the height decides
  const std::int64_t height = by_height ? size.height : size.width * picture.height / picture.width;
  const std::int64_t width = by_height ? size.height * picture.width / picture.height : size.width;
  const Axis columns = fitted(picture.width, width, size.width), rows = fitted(picture.height, height, size.height);
  Picture result = columns.changes() ? with_columns(picture, columns) : picture;
  return rows.changes() ? with_rows(result, rows) : result;
}

}  // namespace zero
