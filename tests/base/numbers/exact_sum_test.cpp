#include "zero/base/numbers/exact_sum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

// Squares over the whole range of floats, so a sum in double would depend on its order.
std::vector<double> wild_squares(std::size_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> exponent(-149, 128);
  std::vector<double> squares;
  for (std::size_t i = 0; i < count; ++i) {
    const double value = static_cast<float>(std::exp2(exponent(random)));
    squares.push_back(value * value);
  }
  return squares;
}

ExactSum sum_of(const std::vector<double>& terms) {
  ExactSum sum;
  for (const double term : terms) sum.add(term);
  return sum;
}

TEST(ExactSum, OrderAndGroupingKeepBits) {
  std::vector<double> terms = wild_squares(10'000, 1);
  const double expected = sum_of(terms).value();
  std::mt19937 random(2);
  for (int round = 0; round < 10; ++round) {
    std::ranges::shuffle(terms, random);
    ExactSum groups;
    for (std::size_t begin = 0; begin < terms.size();) {
      const std::size_t end = std::min(terms.size(), begin + 1 + random() % 3000);
      groups.add(sum_of(
          {terms.begin() + static_cast<std::ptrdiff_t>(begin), terms.begin() + static_cast<std::ptrdiff_t>(end)}));
      begin = end;
    }
    EXPECT_EQ(groups.value(), expected);
  }
}

TEST(ExactSum, SumsOfSumsAreExact) {
  ExactSum sum = sum_of({1.5, 0x1p-90, 0x1.8p40});
  for (int doubling = 0; doubling < 38; ++doubling) sum.add(ExactSum(sum));
  ExactSum expected = sum_of({0x1.8p38, 0x1p-52, 0x1.8p78});
  EXPECT_EQ(sum.value(), expected.value());
}

TEST(ExactSum, NothingIsTooSmallToCount) {
  ExactSum sum;
  sum.add(1);
  for (int i = 0; i < 1024; ++i) sum.add(std::exp2(-60));
  EXPECT_EQ(sum.value(), 1 + std::exp2(-50)) << "in double each of them would be lost";
}

TEST(ExactSum, HoldsSmallestAndLargestSquares) {
  const double smallest = std::numeric_limits<float>::denorm_min();
  const double largest = std::numeric_limits<float>::max();
  ExactSum sum;
  sum.add(smallest * smallest);
  EXPECT_EQ(sum.value(), smallest * smallest);
  ExactSum many;
  for (int i = 0; i < 3; ++i) many.add(largest * largest);
  EXPECT_EQ(many.value(), 3 * (largest * largest));
}

TEST(ExactSum, NegativeTermsMakeANaN) {
  ExactSum zero;
  zero.add(0.0);
  zero.add(-0.0);
  EXPECT_EQ(zero.value(), 0);
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    ExactSum sum = zero;
    sum.add(bad);
    EXPECT_TRUE(std::isnan(sum.value())) << bad;
    ExactSum total;
    total.add(sum);
    EXPECT_TRUE(std::isnan(total.value())) << bad;
  }
}

TEST(ExactSum, InfinityStaysUnlessNaN) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ExactSum sum, other;
  sum.add(kInfinity);
  sum.add(3);
  other.add(4);
  other.add(sum);
  EXPECT_EQ(other.value(), kInfinity);
  other.add(std::numeric_limits<double>::quiet_NaN());
  other.add(kInfinity);
  EXPECT_TRUE(std::isnan(other.value()));
}

TEST(ExactSum, TakesIntegersAtAnyExponent) {
  ExactSum sum;
  sum.add_scaled(3, -1);
  sum.add_scaled(~std::uint64_t{0}, -60);
  sum.add_scaled(1, -60);
  EXPECT_EQ(sum.value(), 17.5);
  ExactSum least;
  least.add_scaled(7, -300);
  EXPECT_EQ(least.value(), 0x1p-298) << "two bits are below all squares of floats";
  least.add_scaled(1, 250);
  EXPECT_EQ(least.value(), 0x1p250);
}

TEST(ExactSum, LimbsRoundTrip) {
  const std::vector<double> terms = wild_squares(1000, 7);
  SumLimbs limbs;
  for (int half = 0; half < 2; ++half) {
    ExactSum sum;
    for (std::size_t i = 0; i < 500; ++i) sum.add(terms[static_cast<std::size_t>(half) * 500 + i]);
    sum.add_to(limbs);
  }
  ExactSum whole;
  whole.add(limbs);
  EXPECT_EQ(whole.value(), sum_of(terms).value());
}

TEST(ExactSum, TakesLimbsThatWereNotCarried) {
  SumLimbs limbs;
  limbs.digits[3] = ~std::uint64_t{0};
  limbs.digits[SumLimbs::kNumDigits - 1] = 5;
  ExactSum sum, expected;
  for (int i = 0; i < 3; ++i) sum.add(limbs);
  constexpr int kDigit = SumLimbs::kLowestExponent;
  for (int i = 0; i < 3; ++i) expected.add_scaled(~std::uint64_t{0}, kDigit + 3 * 32);
  EXPECT_EQ(sum.value(), expected.value() + std::ldexp(15, kDigit + 32 * (static_cast<int>(SumLimbs::kNumDigits) - 1)));
}

TEST(ExactSum, LimbsRememberWhatIsNoNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double term : {kInfinity, std::numeric_limits<double>::quiet_NaN()}) {
    ExactSum sum, whole;
    sum.add(term);
    SumLimbs limbs;
    sum.add_to(limbs);
    whole.add(1);
    whole.add(limbs);
    EXPECT_EQ(std::isnan(whole.value()), std::isnan(term));
    EXPECT_EQ(std::isinf(whole.value()), std::isinf(term));
  }
}

TEST(ExactSum, ABlockIsOneTerm) {
  std::vector<float> block(static_cast<std::size_t>(kSumBlock));
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<float>(i);
  EXPECT_EQ(block_sum_of_squares(block.data()), 1240);
}

}  // namespace
}  // namespace zero
