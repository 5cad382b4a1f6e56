#include "app/report/screen/sparkline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace zero {
namespace {

constexpr std::size_t kLevels = 8;
using Levels = std::array<std::string_view, kLevels>;
constexpr Levels kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr Levels kCharacters{"_", ".", "-", "~", "=", "+", "*", "#"};

}  // namespace

std::string sparkline(std::span<const double> values, std::size_t columns, Glyphs glyphs) {
  values = values.last(std::min(columns, values.size()));
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  const Levels& levels = glyphs == Glyphs::kUnicode ? kBlocks : kCharacters;
  std::string line;
  for (const double value : values) {
    // Halves first, because the whole range may exceed a double.
    const double height = most > least ? (value / 2 - least / 2) / (most / 2 - least / 2) : 0;
    line += std::isfinite(value) ? levels[static_cast<std::size_t>(std::lround(height * (kLevels - 1)))] : "!";
  }
  return line;
}

}  // namespace zero
