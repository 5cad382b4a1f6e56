#include "app/report/screen/live_line.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/text/bytes.h"

#include "app/report/screen/loss_text.h"

namespace zero {
namespace {

constexpr std::int64_t kBarWidth = 24;
constexpr std::size_t kLeastCurveColumns = 8;

constexpr std::size_t kLevels = 8;
using Levels = std::array<std::string_view, kLevels>;
constexpr Levels kBlocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr Levels kCharacters{"_", ".", "-", "~", "=", "+", "*", "#"};

}  // namespace

std::string live_line(const LiveValues& v, std::span<const double> losses, const LiveStyle& style) {
  enum Part { kBar, kShare, kStep, kLoss, kCurve, kRate, kMemory, kNumParts };
  constexpr std::array kLeftOutFirst{kBar, kMemory, kStep, kCurve, kRate, kLoss, kShare};
  const std::string share = progress_bar(v.step, style.steps, v.seconds_left, 1 << 20);
  const std::size_t bar = share.find(']') + 2;
  std::array<std::string, kNumParts> parts{share.substr(0, bar),
                                           share.substr(bar),
                                           fmt::format("  step {}/{}", v.step, style.steps),
                                           "  loss " + loss_text(v.loss),
                                           "",
                                           fmt::format("  {} {}", format_count(std::llround(v.rate)), style.rate_unit),
                                           "  mem " + format_memory(v.memory_bytes)};
  // All but the curve is ASCII: a byte a column.
  const std::size_t room = style.columns > 0 ? static_cast<std::size_t>(style.columns) : 1U << 20U;
  const auto width = [&] {
    return std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                           [](std::size_t sum, const std::string& part) { return sum + part.size(); });
  };
  bool has_curve = losses.size() > 1;  // of one value it says nothing
  const std::size_t wanted = has_curve ? std::min(losses.size(), kLeastCurveColumns) + 1 : 0;
  for (const Part part : kLeftOutFirst) {
    if (width() + (has_curve ? wanted : 0) <= room) break;
    if (part == kCurve) has_curve = false;
    parts[part].clear();
  }
  if (has_curve) {
    const std::size_t columns = std::min(room - width() - 1, kMostCurveColumns);
    parts[kCurve] = " " + sparkline(losses, columns, style.glyphs);
  }
  return fmt::format("{}", fmt::join(parts, ""));
}

std::string format_duration(double seconds) {
  const auto s = std::llround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

std::string format_memory(std::int64_t bytes) {
  constexpr std::int64_t kKiB = 1 << 10, kMiB = 1 << 20;
  const bool small = bytes < kMiB;
  const std::int64_t unit = small ? kKiB : kMiB;
  return fmt::format("{} {}", format_count((bytes + unit / 2) / unit), small ? "KiB" : "MiB");
}

std::string progress_bar(std::int64_t step, std::int64_t steps, double seconds_left, int columns) {
  step = std::min(step, steps);
  const std::int64_t full = steps > 0 ? kBarWidth * step / steps : kBarWidth;
  const std::string left =
      fmt::format("{:3}%  {} left", steps > 0 ? 100 * step / steps : 100, format_duration(seconds_left));
  const std::string whole = fmt::format("[{}{}] {}", std::string(static_cast<std::size_t>(full), '#'),
                                        std::string(static_cast<std::size_t>(kBarWidth - full), '.'), left);
  if (columns <= 0 || std::ssize(whole) <= columns) return whole;
  return std::ssize(left) <= columns ? left : "";
}

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
