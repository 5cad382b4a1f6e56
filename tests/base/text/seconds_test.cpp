#include "zero/base/text/seconds.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(Seconds, ReadsTheFittingUnit) {
  EXPECT_EQ(format_seconds(0), "0 ms");
  EXPECT_EQ(format_seconds(0.00021), "0.2 ms");
  EXPECT_EQ(format_seconds(0.0065), "6.5 ms");
  EXPECT_EQ(format_seconds(0.0124), "12 ms");
  EXPECT_EQ(format_seconds(0.25), "250 ms");
  EXPECT_EQ(format_seconds(1.5), "1.50 s");
  EXPECT_EQ(format_seconds(42), "42.0 s");
  EXPECT_EQ(format_seconds(1183.165), "19.7 min");
  EXPECT_EQ(format_seconds(7200), "2.00 h");
  EXPECT_EQ(format_seconds(1e6), "278 h");
}

TEST(Seconds, UnitChangesBeforeRoundingUp) {
  EXPECT_EQ(format_seconds(0.9996), "1.00 s");
  EXPECT_EQ(format_seconds(59.97), "1.00 min");
  EXPECT_EQ(format_seconds(3599), "1.00 h");
}

}  // namespace
}  // namespace zero
