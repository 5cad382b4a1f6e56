#include "app/report/page/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace zero::page {
namespace {

TEST(CurveThinner, KeepsShortCurves) {
  CurveThinner curve(10);
  std::vector<CurvePoint> added;
  for (int step = 1; step <= 10; ++step) {
    added.push_back({double(step), double(step % 3)});
    curve.add(added.back().step, added.back().value);
  }
  EXPECT_EQ(curve.points(), added);
}

TEST(CurveThinner, KeepsEqualNeighbours) {
  CurveThinner curve(10);
  for (int step = 1; step <= 4; ++step) curve.add(step, 7);
  EXPECT_EQ(curve.points().size(), 4U);
}

// About a thousand points remain.
TEST(CurveThinner, ThinsMillionPointsKeepingSpikes) {
  CurveThinner curve(2000);
  constexpr int kSteps = 1'000'000;
  for (int step = 1; step <= kSteps; ++step) {
    const double value = step == 314'159 ? 1000 : step == 271'828 ? -1000 : std::sin(step);
    curve.add(step, value);
  }
  const auto points = curve.points();
  EXPECT_LE(points.size(), 2002U);
  EXPECT_GE(points.size(), 900U);
  EXPECT_EQ(*std::ranges::max_element(points, {}, &CurvePoint::value), (CurvePoint{314'159, 1000}));
  EXPECT_EQ(*std::ranges::min_element(points, {}, &CurvePoint::value), (CurvePoint{271'828, -1000}));
}

TEST(CurveThinner, KeepsFirstAndLastPoint) {
  CurveThinner curve(4);
  for (int step = 0; step < 1000; ++step) curve.add(step, step == 500 ? 9 : 1 + 1e-3 * (step % 7));
  EXPECT_EQ(curve.points().front(), (CurvePoint{0, 1}));
  EXPECT_EQ(curve.points().back().step, 999);
}

TEST(CurveThinner, KeepsStepOrder) {
  CurveThinner curve(8);
  for (int step = 0; step < 500; ++step) curve.add(step, -step % 11);
  for (int step = 300; step < 400; ++step) curve.add(step, step % 5);  // after a rewind
  const auto points = curve.points();
  EXPECT_TRUE(std::ranges::is_sorted(points, {}, &CurvePoint::step));
}

TEST(CurveThinner, DropsNonFiniteValues) {
  CurveThinner curve(8);
  curve.add(1, std::nan(""));
  curve.add(2, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(curve.points().empty());
  curve.add(3, 1);
  EXPECT_EQ(curve.points().size(), 1U);
}

}  // namespace
}  // namespace zero::page
