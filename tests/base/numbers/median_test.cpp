#include "zero/base/numbers/median.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(Median, EvenNumberTakesTheMean) {
  EXPECT_EQ(median_of({3, 1}), 2);
  EXPECT_EQ(median_of({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median_of({9, 1, 2}), 2);
  EXPECT_EQ(median_of({7}), 7);
  EXPECT_EQ(median_of({}), 0);
}

}  // namespace
}  // namespace zero
