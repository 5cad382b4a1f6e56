#include "zero/optim/rule/column_sums.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace zero {
namespace {

// The computation of column_sums-inl.h, with one term for each of two columns.
void add_row(ColumnSums& sums, double first, double second) {
  const double terms[] = {first, second};
  for (std::size_t i = 0; i < 2; ++i) {
    const double sum = sums.high()[i] + terms[i];
    sums.low()[i] += terms[i] - (sum - sums.high()[i]);
    sums.high()[i] = sum;
  }
}

TEST(ColumnSums, AreExactBeyondDouble) {
  std::vector<ExactSum> columns(2);
  std::mutex lock;
  {
    ColumnSums sums(kFloatTerms, columns, lock);
    for (int row = 0; row < 1000; ++row) {
      ASSERT_TRUE(sums.make_room(1, -60, 0));
      add_row(sums, row == 0 ? 1 : std::exp2(-60), 0);
    }
  }
  ExactSum expected;
  expected.add(1);
  for (int row = 1; row < 1000; ++row) expected.add(std::exp2(-60));
  EXPECT_EQ(columns[0].value(), expected.value());
  EXPECT_GT(columns[0].value(), 1);
  EXPECT_EQ(columns[1].value(), 0);
}

TEST(ColumnSums, AddLanesExactly) {
  std::vector<ExactSum> columns(2);
  std::mutex lock;
  {
    ColumnSums sums(kFloatTerms, std::span(columns).first(1), lock, 2);
    ASSERT_TRUE(sums.make_room(1, -60, 0));
    add_row(sums, 1, std::exp2(-60));
    sums.move_to(std::span(columns).last(1));
    ASSERT_TRUE(sums.make_room(1, -60, 0));
    add_row(sums, std::exp2(-60), 0);
  }
  ExactSum expected;
  expected.add(1);
  expected.add(std::exp2(-60));
  EXPECT_EQ(columns[0].value(), expected.value());
  columns[0].add(columns[1]);
  for (int i = 0; i < 127; ++i) columns[0].add(std::exp2(-59));
  EXPECT_EQ(columns[0].value(), 1 + std::exp2(-52)) << "bits below those of a double were kept";
  EXPECT_EQ(columns[1].value(), std::exp2(-60));
}

TEST(ColumnSums, CountRowsBeyondOneGrid) {
  std::vector<ExactSum> columns(2);
  std::mutex lock;
  ExactSum expected;
  {
    ColumnSums sums(kFloatTerms, columns, lock);
    for (int row = 0; row < 5000; ++row) {
      // The first grid cuts off the second kind of term completely. These terms fill the second grid.
      const double term = row == 0 ? 0x1.fffffep0 : row % 8 != 0 ? 0x1.fffffep-44 : 0x1.000002p-60;
      ASSERT_TRUE(sums.make_room(1, -60, 0));
      add_row(sums, term, 0);
      expected.add(term);
    }
  }
  EXPECT_EQ(columns[0].value(), expected.value());
}

TEST(ColumnSums, RefuseTermsTooFarApart) {
  std::vector<ExactSum> columns(2);
  std::mutex lock;
  ColumnSums sums(kFloatTerms, columns, lock);
  EXPECT_TRUE(sums.make_room(1, -60, 0));
  EXPECT_FALSE(sums.make_room(1, -61, 0)) << "the smallest value would lose a bit";
  EXPECT_FALSE(sums.make_room(1, 0, exponent_of(std::bit_cast<std::uint32_t>(INFINITY)))) << "no number";
  ColumnSums of_doubles(kDoubleTerms, columns, lock);
  EXPECT_TRUE(of_doubles.make_room(1, -37, 0));
  EXPECT_FALSE(of_doubles.make_room(1, -38, 0));
}

// No bit is lost.
TEST(ColumnSums, OtherMagnitudesStartNewGrid) {
  std::vector<ExactSum> columns(2);
  std::mutex lock;
  ExactSum expected;
  {
    ColumnSums sums(kFloatTerms, columns, lock);
    for (const int exponent : {0, 100, -100, 3, 4, 5, -126}) {
      ASSERT_TRUE(sums.make_room(1, exponent, exponent));
      add_row(sums, 0, std::ldexp(1.25, exponent));
      expected.add(std::ldexp(1.25, exponent));
    }
  }
  EXPECT_EQ(columns[1].value(), expected.value());
}

TEST(ColumnSums, TheSmallestFloatsAreCounted) {
  std::vector<ExactSum> columns(2);
  std::mutex lock;
  const float smallest = std::numeric_limits<float>::denorm_min();
  {
    ColumnSums sums(kFloatTerms, columns, lock);
    const int exponent = exponent_of(std::bit_cast<std::uint32_t>(smallest));
    for (int row = 0; row < 3; ++row) {
      ASSERT_TRUE(sums.make_room(1, exponent, exponent));
      add_row(sums, smallest, 0);
    }
  }
  EXPECT_EQ(columns[0].value(), 3.0 * smallest);
}

}  // namespace
}  // namespace zero
