// sparkline(): values as a row of blocks, one column each, whose heights show the values.
//
//   sparkline(std::array{4.0, 3.0, 2.0, 1.0}, 8, Glyphs::kUnicode)    // "█▆▃▁"
//   sparkline(std::array{4.0, 3.0, 2.0, 1.0}, 8, Glyphs::kAscii)      // "#+-_"
//
// The last `columns` values are shown. A value that is not finite is '!', and does not affect the other heights. If all
// values are equal, all are lowest. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace zero {

enum class Glyphs : std::uint8_t { kAscii, kUnicode };

std::string sparkline(std::span<const double> values, std::size_t columns, Glyphs glyphs);

}  // namespace zero
