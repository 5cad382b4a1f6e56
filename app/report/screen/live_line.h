// live_line(): the line at the bottom of a terminal during a run.
//
//   live_line({.step = 760, .loss = 2.41, .rate = 41200, .seconds_left = 12, .memory_bytes = n}, losses, style)
//   // "[#########...............]  38%  12 s left  step 760/2000  loss 2.4123 █▆▅▄▃▂▁▁  41,200 tok/s  mem 61 MiB"
//
// It is never wider than its columns. Parts that do not fit are left out in this order: bar, memory, step, curve, rate,
// loss, and at last share and time left. The curve takes the remaining columns, from 8 to 32. Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace zero {

// sparkline(): values as a row of blocks, one column each, whose heights show the values.
//
//   sparkline(std::array{4.0, 3.0, 2.0, 1.0}, 8, Glyphs::kUnicode)    // "█▆▃▁"
//   sparkline(std::array{4.0, 3.0, 2.0, 1.0}, 8, Glyphs::kAscii)      // "#+-_"
//
// The last `columns` values are shown. A value that is not finite is '!', and does not affect the other heights. If all
// values are equal, all are lowest. Local.
enum class Glyphs : std::uint8_t { kAscii, kUnicode };

std::string sparkline(std::span<const double> values, std::size_t columns, Glyphs glyphs);

struct LiveValues {
  std::int64_t step = 0;
  double loss = 0;
  double rate = 0;  // tokens or rows a second of all ranks
  double seconds_left = 0;
  std::int64_t memory_bytes = 0;
};

struct LiveStyle {
  std::int64_t steps = 0;  // steps of the run
  std::string_view rate_unit;
  int columns = 0;  // 0: no limit
  Glyphs glyphs = Glyphs::kAscii;
};

constexpr std::size_t kMostCurveColumns = 32;

// Returns the line. `losses`: losses of the logged steps, the newest last.
std::string live_line(const LiveValues& values, std::span<const double> losses, const LiveStyle& style);

// Returns "[######..................]  38%  12 s left". If that is wider than `columns`, the bar is left out; if that
// is not enough, the result is empty. 0 columns: no limit.
std::string progress_bar(std::int64_t step, std::int64_t steps, double seconds_left, int columns = 0);
// Returns "9 s", "2 min 05 s" or "3 h 04 min".
std::string format_duration(double seconds);
// Returns "3 KiB", "61 MiB" or "41,200 MiB".
std::string format_memory(std::int64_t bytes);

}  // namespace zero
