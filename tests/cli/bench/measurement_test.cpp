#include "app/cli/bench/measurement.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace zero::cli {
namespace {

Measurement of(std::initializer_list<double> seconds) {
  Measurement measurement;
  for (const double second : seconds) measurement.add(second);
  return measurement;
}

TEST(Measurement, BestIsTheFastest) {
  EXPECT_EQ(of({3, 1, 2}).best(), 1);
}

TEST(Measurement, MedianIsMiddleOrMean) {
  EXPECT_EQ(of({5, 1, 2}).median(), 2);
  EXPECT_EQ(of({4, 1, 2, 8}).median(), 3);
}

TEST(Measurement, SpreadIsRelativeToTheBest) {
  EXPECT_DOUBLE_EQ(of({1.0, 1.2}).spread(), 0.2);
}

TEST(Measurement, TimeIsTheWorksTime) {
  Measurement measurement;
  bool ran = false;
  const double seconds = measurement.time([&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_GE(seconds, 0);
  EXPECT_EQ(measurement.best(), seconds);
}

TEST(Measurement, OfNothingIsABug) {
  EXPECT_TRUE(says(message_of<InternalError>([] { (void)Measurement().median(); }), "does not hold"));
}

}  // namespace
}  // namespace zero::cli
