#include "app/data/sample/shown_sample.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "zero/base/text/terminal_text.h"

namespace zero {
namespace {

constexpr std::size_t kMostOfAName = 24;
constexpr std::string_view kShades = " .:-=+*#%@";
constexpr double kDensest = 9;  // index of the last character
constexpr std::int64_t kMostLines = 8;
constexpr std::int64_t kCharacterHeight = 2;  // a character's height, as a multiple of its width

std::int64_t divided_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// Returns the mean of all channels over the part of a cell that is within the picture. A cell is `side` pixels wide.
double brightness(const Picture& picture, std::int64_t top, std::int64_t left, std::int64_t side) {
  const std::int64_t bottom = std::min(top + kCharacterHeight * side, picture.height);
  const std::int64_t right = std::min(left + side, picture.width);
  double sum = 0;
  for (std::int64_t channel = 0; channel < picture.channels; ++channel) {
    for (std::int64_t row = top; row < bottom; ++row) {
      const auto line = picture.pixels.begin() + (channel * picture.height + row) * picture.width;
      for (std::int64_t column = left; column < right; ++column) sum += line[column];
    }
  }
  return sum / static_cast<double>(picture.channels * (bottom - top) * (right - left));
}

}  // namespace

std::string shown_picture(const Picture& picture, std::size_t columns) {
  const std::int64_t side = std::max(divided_up(picture.height, kCharacterHeight * kMostLines),
                                     divided_up(picture.width, static_cast<std::int64_t>(columns)));
  std::vector<double> cells;
  for (std::int64_t top = 0; top < picture.height; top += kCharacterHeight * side) {
    for (std::int64_t left = 0; left < picture.width; left += side)
      cells.push_back(brightness(picture, top, left, side));
  }
  const auto [darkest, brightest] = std::ranges::minmax(cells);
  const bool even = brightest == darkest;
  const double least = even ? 0 : darkest, range = even ? 255 : brightest - darkest;
  const auto per_line = static_cast<std::size_t>(divided_up(picture.width, side));
  std::string text;
  for (std::size_t begin = 0; begin < cells.size(); begin += per_line) {
    std::string line;
    for (const double cell : std::span(cells).subspan(begin, per_line))
      line += kShades[static_cast<std::size_t>(std::lround((cell - least) / range * kDensest))];
    line.erase(line.find_last_not_of(' ') + 1);
    if (!text.empty() || !line.empty()) text += line + '\n';
  }
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

std::string shown_class(std::span<const std::string> names, std::int64_t number) {
  if (number < 0 || number >= std::ssize(names)) return fmt::format("{}", number);
  return terminal_text(names[static_cast<std::size_t>(number)], kMostOfAName);
}

}  // namespace zero
