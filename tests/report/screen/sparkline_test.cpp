#include "app/report/screen/sparkline.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

namespace zero {
namespace {

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
