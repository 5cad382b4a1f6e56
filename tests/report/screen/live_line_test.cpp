#include "app/report/screen/live_line.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr LiveValues kValues{
    .step = 760, .loss = 2.41234, .rate = 41200.4, .seconds_left = 12.3, .memory_bytes = 61 << 20};
constexpr std::array kLosses{8.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 1.0};

std::string line_of(int columns, Glyphs glyphs = Glyphs::kUnicode, std::span<const double> losses = kLosses) {
  return live_line(kValues, losses, {.steps = 2000, .rate_unit = "tok/s", .columns = columns, .glyphs = glyphs});
}

// Each character of these lines is one column.
std::ptrdiff_t columns_of(const std::string& line) {
  return std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
}

TEST(LiveLine, ReadsAsTheContractShows) {
  EXPECT_EQ(
      line_of(0),
      "[#########...............]  38%  12 s left  step 760/2000  loss 2.4123 █▆▅▄▃▂▁▁  41,200 tok/s  mem 61 MiB");
  EXPECT_EQ(
      line_of(0, Glyphs::kAscii),
      "[#########...............]  38%  12 s left  step 760/2000  loss 2.4123 #+=~-.__  41,200 tok/s  mem 61 MiB");
}

TEST(LiveLine, LeavesOutWhatIsLeastMissed) {
  EXPECT_EQ(line_of(80), " 38%  12 s left  step 760/2000  loss 2.4123 █▆▅▄▃▂▁▁  41,200 tok/s  mem 61 MiB");
  EXPECT_EQ(line_of(70), " 38%  12 s left  step 760/2000  loss 2.4123 █▆▅▄▃▂▁▁  41,200 tok/s");
  EXPECT_EQ(line_of(60), " 38%  12 s left  loss 2.4123 █▆▅▄▃▂▁▁  41,200 tok/s");
  EXPECT_EQ(line_of(45), " 38%  12 s left  loss 2.4123  41,200 tok/s");
  EXPECT_EQ(line_of(30), " 38%  12 s left  loss 2.4123");
  EXPECT_EQ(line_of(20), " 38%  12 s left");
  EXPECT_EQ(line_of(5), "");
}

TEST(LiveLine, IsNeverWiderThanItsColumns) {
  std::vector<double> losses;
  for (int i = 0; i < 40; ++i) losses.push_back(40 - i);
  for (int columns = 1; columns < 160; ++columns)
    EXPECT_LE(columns_of(line_of(columns, Glyphs::kUnicode, losses)), columns);
}

TEST(LiveLine, CurveFillsAvailableRoom) {
  std::vector<double> losses;
  for (int i = 0; i < 40; ++i) losses.push_back(40 - i);
  EXPECT_EQ(columns_of(line_of(120, Glyphs::kUnicode, losses)), 120);
  EXPECT_EQ(columns_of(line_of(160, Glyphs::kUnicode, losses)), 129) << "32 columns, and no more";
}

TEST(LiveLine, OneLossIsNoCurve) {
  EXPECT_EQ(line_of(60, Glyphs::kAscii, std::array{1.0}), " 38%  12 s left  step 760/2000  loss 2.4123  41,200 tok/s");
}

TEST(LiveLine, BarFillsFromNoneToAll) {
  EXPECT_EQ(progress_bar(0, 10, 10), "[........................]   0%  10 s left");
  EXPECT_EQ(progress_bar(5, 10, 5), "[############............]  50%  5 s left");
  EXPECT_EQ(progress_bar(10, 10, 0), "[########################] 100%  0 s left");
  EXPECT_EQ(progress_bar(5, 10, 5, 30), " 50%  5 s left");
  EXPECT_EQ(progress_bar(5, 10, 5, 5), "");
}

TEST(LiveLine, DurationsReadAsPeopleSayThem) {
  EXPECT_EQ(format_duration(9.4), "9 s");
  EXPECT_EQ(format_duration(125), "2 min 05 s");
  EXPECT_EQ(format_duration(3 * 3600 + 4 * 60 + 59), "3 h 04 min");
}

TEST(LiveLine, LittleMemoryIsNotNone) {
  EXPECT_EQ(format_memory(3000), "3 KiB");
  EXPECT_EQ(format_memory(std::int64_t{41200} << 20), "41,200 MiB");
}

TEST(Sparkline, RisesFromLeastToMost) {
  const std::array values{0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0};
  EXPECT_EQ(sparkline(values, 8, Glyphs::kUnicode), "▁▂▃▄▅▆▇█");
  EXPECT_EQ(sparkline(values, 8, Glyphs::kAscii), "_.-~=+*#");
}

TEST(Sparkline, ShowsTheLastValuesThatFit) {
  EXPECT_EQ(sparkline(std::array{900.0, 0.0, 7.0}, 2, Glyphs::kAscii), "_#");
  EXPECT_EQ(sparkline({}, 8, Glyphs::kAscii), "");
}

TEST(Sparkline, OfEqualValuesIsFlat) {
  EXPECT_EQ(sparkline(std::array{2.0, 2.0}, 8, Glyphs::kUnicode), "▁▁");
}

// Non-finite values do not change the scale of other values.
TEST(Sparkline, MarksNonFiniteValues) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(sparkline(std::array{0.0, kInfinite, kNone, 1.0}, 8, Glyphs::kAscii), "_!!#");
  constexpr double kMost = std::numeric_limits<double>::max();
  EXPECT_EQ(sparkline(std::array{-kMost, 0.0, kMost}, 8, Glyphs::kAscii), "_=#");
}

}  // namespace
}  // namespace zero
