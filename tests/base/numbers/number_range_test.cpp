#include "zero/base/numbers/number_range.h"

#include <cmath>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NumberRange, NothingInfiniteIsInside) {
  for (const NumberRange& range : {NumberRange{}, kAtLeastZero, kAboveZero, kAtLeastOne, kFractionOfOne})
    for (const double none : {std::nan(""), kInfinity, -kInfinity, 1e39}) EXPECT_FALSE(range.contains(none)) << none;
}

TEST(NumberRange, EndsCountAsDeclared) {
  EXPECT_TRUE(kAtLeastZero.contains(0) && !kAtLeastZero.contains(-1e-30));
  EXPECT_TRUE(kAboveZero.contains(1e-30) && !kAboveZero.contains(0));
  EXPECT_TRUE(kFractionOfOne.contains(0.999) && !kFractionOfOne.contains(1));
}

TEST(NumberRange, ANumberCountsAsFp32) {
  EXPECT_FALSE(kAboveZero.contains(1e-60)) << "0 as fp32";
  EXPECT_FALSE(kFractionOfOne.contains(1 - 1e-12)) << "1 as fp32";
}

TEST(NumberRange, TheMessageNamesKeyAndRange) {
  EXPECT_EQ(message_of<ConfigError>([] { require_number("a.b", -1, kAtLeastZero, "use 0"); }),
            "a.b = -1: must be a finite number, 0 or more\n  use 0");
  EXPECT_EQ(kAboveZero.text(), "a finite number above 0");
  EXPECT_EQ(kFractionOfOne.text(), "a finite number, 0 or more and less than 1");
  EXPECT_EQ(NumberRange{.most = 0}.text(), "a finite number, at most 0");
  EXPECT_NO_THROW(require_number("a.b", 0, kAtLeastZero, "use 0"));
}

}  // namespace
}  // namespace zero
