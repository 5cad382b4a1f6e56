#include "zero/optim/lr_schedule.h"

#include <cmath>

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr LrSchedule kShakespeare{.kind = LrKind::kCosine, .lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 2000};

LrSchedule with(LrKind kind) {
  auto schedule = kShakespeare;
  schedule.kind = kind;
  return schedule;
}

TEST(LrSchedule, WarmUpClimbsFromAboveZero) {
  EXPECT_DOUBLE_EQ(lr_at(kShakespeare, 0), 1e-3 / 101);
  EXPECT_DOUBLE_EQ(lr_at(kShakespeare, 49), 1e-3 * 50 / 101);
  EXPECT_DOUBLE_EQ(lr_at(kShakespeare, 99), 1e-3 * 100 / 101);
}

TEST(LrSchedule, IsAtItsHighestWhenWarm) {
  for (const LrKind kind : {LrKind::kConstant, LrKind::kLinear, LrKind::kCosine, LrKind::kPolynomial,
                            LrKind::kInverseSqrt, LrKind::kOneCycle, LrKind::kWsd})
    EXPECT_DOUBLE_EQ(lr_at(with(kind), 100), 1e-3);
}

TEST(LrSchedule, CosineIsHalfAtMiddle) {
  EXPECT_NEAR(lr_at(kShakespeare, 1050), (1e-3 + 1e-4) / 2, 1e-12);
  // After a quarter of the decay: cos(45 degrees).
  EXPECT_NEAR(lr_at(kShakespeare, 575), 1e-4 + 0.5 * (1 + std::sqrt(0.5)) * 9e-4, 1e-12);
}

TEST(LrSchedule, LinearFallsEvenly) {
  const auto schedule = with(LrKind::kLinear);
  EXPECT_NEAR(lr_at(schedule, 575), 1e-3 - 0.25 * 9e-4, 1e-12);
  EXPECT_NEAR(lr_at(schedule, 200) - lr_at(schedule, 201), lr_at(schedule, 1900) - lr_at(schedule, 1901), 1e-15);
}

TEST(LrSchedule, PolynomialFallsByPowerOfRest) {
  auto schedule = with(LrKind::kPolynomial);
  EXPECT_NEAR(lr_at(schedule, 1050), 1e-4 + 0.25 * 9e-4, 1e-12);
  schedule.power = 1;
  EXPECT_NEAR(lr_at(schedule, 1050), lr_at(with(LrKind::kLinear), 1050), 1e-15);
}

// The rate halves whenever the step number is four times as large, counted from the warm-up. This schedule has no end.
TEST(LrSchedule, InverseSqrtHalvesPerFourfoldTime) {
  auto schedule = with(LrKind::kInverseSqrt);
  EXPECT_NEAR(lr_at(schedule, 400), 5e-4, 1e-12);
  EXPECT_NEAR(lr_at(schedule, 2500), 2e-4, 1e-12);
  EXPECT_EQ(lr_at(schedule, 1000000), 1e-4) << "never below min_lr";
  schedule.warmup = 0;
  EXPECT_NEAR(lr_at(schedule, 3), 5e-4, 1e-12);
}

// The climb begins at a twenty-fifth of the highest rate.
TEST(LrSchedule, OneCycleClimbsHalfCosine) {
  auto schedule = with(LrKind::kOneCycle);
  schedule.warmup = 99;
  EXPECT_NEAR(lr_at(schedule, 49), (1e-3 / 25 + 1e-3) / 2, 1e-12);
  EXPECT_LT(lr_at(schedule, 0), 1.01e-3 / 25);
  EXPECT_EQ(lr_at(schedule, 700),
            lr_at({.kind = LrKind::kCosine, .lr = 1e-3, .min_lr = 1e-4, .warmup = 99, .steps = 2000}, 700));
}

// The rate falls only in the last steps.
TEST(LrSchedule, WsdStaysThenFallsLinearly) {
  auto schedule = with(LrKind::kWsd);
  EXPECT_EQ(lr_at(schedule, 1620), 1e-3) << "a fifth of 1,900 steps";
  EXPECT_NEAR(lr_at(schedule, 1810), (1e-3 + 1e-4) / 2, 1e-12);
  schedule.decay = 100;
  EXPECT_EQ(lr_at(schedule, 1900), 1e-3);
  EXPECT_NEAR(lr_at(schedule, 1950), (1e-3 + 1e-4) / 2, 1e-12);
}

TEST(LrSchedule, ConstantStays) {
  EXPECT_EQ(lr_at(with(LrKind::kConstant), 1999), 1e-3);
  EXPECT_EQ(lr_at(with(LrKind::kConstant), 5000), 1e-3);
}

TEST(LrSchedule, EndsAtMinimumAndStays) {
  for (const LrKind kind : {LrKind::kLinear, LrKind::kCosine, LrKind::kPolynomial, LrKind::kOneCycle, LrKind::kWsd}) {
    EXPECT_EQ(lr_at(with(kind), 2000), 1e-4);
    EXPECT_EQ(lr_at(with(kind), 99999), 1e-4);
    EXPECT_GT(lr_at(with(kind), 1999), 1e-4);
  }
}

TEST(LrSchedule, FullLengthWarmUpOnlyClimbs) {
  const LrSchedule schedule{.kind = LrKind::kCosine, .lr = 1, .min_lr = 0.1, .warmup = 5, .steps = 5};
  for (int step = 0; step < 5; ++step) EXPECT_DOUBLE_EQ(lr_at(schedule, step), (step + 1) / 6.0);
  EXPECT_EQ(lr_at(schedule, 5), 0.1);
}

}  // namespace
}  // namespace zero
