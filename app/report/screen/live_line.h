// live_line(): the line at the bottom of a terminal while a run goes on.
//
//   live_line({.step = 760, .loss = 2.41, .rate = 41200, .seconds_left = 12, .memory_bytes = n}, losses, style)
//   // "[#########...............]  38%  12 s left  step 760/2000  loss 2.4123 █▆▅▄▃▂▁▁  41,200 tok/s  mem 61 MiB"
//
// Never wider than its columns. What does not fit is left out: the bar first, then memory, step, the curve, rate and
// loss; share and time left go last. The curve takes what room there is, from 8 to 32 columns. Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "app/report/screen/sparkline.h"

namespace zero {

struct LiveValues {
  std::int64_t step = 0;
  double loss = 0;
  double rate = 0;  // tokens or rows a second, over all ranks
  double seconds_left = 0;
  std::int64_t memory_bytes = 0;
};

struct LiveStyle {
  std::int64_t steps = 0;  // of the run
  std::string_view rate_unit;
  int columns = 0;  // 0: as wide as it gets
  Glyphs glyphs = Glyphs::kAscii;
};

constexpr std::size_t kMostCurveColumns = 32;

// `losses`: of the steps that had a line, the newest last.
std::string live_line(const LiveValues& values, std::span<const double> losses, const LiveStyle& style);

// "[######..................]  38%  12 s left"; without the bar, or empty, where that is wider than `columns`. 0: all
// of it.
std::string progress_bar(std::int64_t step, std::int64_t steps, double seconds_left, int columns = 0);
// "9 s", "2 min 05 s", "3 h 04 min"
std::string format_duration(double seconds);
// "3 KiB", "61 MiB", "41,200 MiB"
std::string format_memory(std::int64_t bytes);

}  // namespace zero
