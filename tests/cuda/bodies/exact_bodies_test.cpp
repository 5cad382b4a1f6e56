#include "plugins/cuda/bodies/exact_bodies.h"

#include <gtest/gtest.h>

#include "tests/cuda/random_span.h"
#include "tests/cuda/sum_lanes.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

// Exponents inside and outside the range of the sum.
double random_term(Random& random) {
  if (drawn(random, 200) == 0) return std::array{0.0, -0.0, 5e-324, 1e-310}[random() % 4];
  const double fraction = 1 + static_cast<double>(random() >> 12) * 0x1p-52;
  const int exponent = drawn(random, 3) == 0 ? drawn(random, 600) - 302 : drawn(random, 100) - 60;
  return std::ldexp(fraction, exponent);
}

// For any terms.
TEST(ExactBodies, SumMatchesExactSumBits) {
  Random random(21);
  const int trials = num_trials("ZERO_BODY_SPANS", 2000, 10000);
  for (int trial = 0; trial < trials; ++trial) {
    ExactSum expected;
    SumLimbs limbs;
    {
      ThreadSum one(limbs), another(limbs);
      for (int i = drawn(random, 100); i >= 0; --i) {
        const double term = random_term(random);
        expected.add(term);
        (drawn(random, 2) == 0 ? one : another).add(term);
      }
    }
    ASSERT_TRUE(same_value(value_of(limbs), expected.value())) << "trial " << trial;
  }
}

TEST(ExactBodies, NonFiniteTermsDecideTheSum) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double term : {kInfinity, -kInfinity, kNan, -kNan, 0x1p300, -1.0, 0x1.fp299, -0.0}) {
    ExactSum expected;
    SumLimbs limbs;
    for (const double each : {1.5, term, 0x1p-200}) {
      expected.add(each);
      ThreadSum(limbs).add(each);
    }
    EXPECT_TRUE(same_value(value_of(limbs), expected.value())) << term;
  }
}

// It accepts all terms of its window, and no other terms.
TEST(ExactBodies, WideSumTakesItsWindow) {
  bodies::WideSum sum;
  EXPECT_TRUE(sum.add(0x1p-54));
  EXPECT_FALSE(sum.add(0x1.fffffffffffffp-55));
  EXPECT_TRUE(sum.add(0x1.fffffffffffffp47));
  EXPECT_FALSE(sum.add(0x1p48));
  EXPECT_FALSE(sum.add(-1));
  EXPECT_TRUE(sum.add(0));
  SumLimbs limbs;
  sum.add_to(limbs, PlainAdder());
  EXPECT_EQ(value_of(limbs), 0x1p-54 + 0x1.fffffffffffffp47);
}

TEST(ExactBodies, ThreadSumsCarryOver) {
  Random random(22);
  bodies::WideSum total;
  ExactSum expected;
  for (int i = 0; i < 10000; ++i) {
    const double term = std::ldexp(1 + static_cast<double>(random() >> 12) * 0x1p-52, drawn(random, 102) - 54);
    bodies::WideSum one;
    ASSERT_TRUE(one.add(term));
    total.add(bodies::WideSum::of_words(one.word(0), one.word(1), one.word(2)));
    expected.add(term);
  }
  SumLimbs limbs;
  total.add_to(limbs, PlainAdder());
  EXPECT_EQ(value_of(limbs), expected.value());
}

TEST(ExactBodies, BlockTermMatchesTheHost) {
  Random random(23);
  for (int trial = 0; trial < 1000; ++trial) {
    std::array<float, 16> block;
    Sixteen squares;
    for (std::size_t i = 0; i < 16; ++i) {
      block[i] = random_value(random);
      squares.lane[i] = bodies::square_of(block[i]);
    }
    EXPECT_TRUE(same_value(bodies::whole_term(squares, ExchangeLanes()).lane[0], block_sum_of_squares(block.data())));
  }
}

}  // namespace
}  // namespace zero
