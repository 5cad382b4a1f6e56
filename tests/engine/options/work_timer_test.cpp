#include "zero/engine/options/work_timer.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(WorkTimer, CountsWaitsWithinItsSpans) {
  double waited = 1;
  WorkTimer timer([&waited] { return waited; });
  EXPECT_EQ(timer.seconds(), 0);
  {
    const WorkTimer::Span span(timer);
    waited += 2;
  }
  waited += 4;
  EXPECT_EQ(timer.waited(), 2);
  const double first = timer.seconds();
  EXPECT_GT(first, 0);
  {
    const WorkTimer::Span span(timer);
    waited += 8;
  }
  EXPECT_EQ(timer.waited(), 10);
  EXPECT_GT(timer.seconds(), first);
}

TEST(WorkTimer, LeavesOutWhatIsCountedElsewhere) {
  double elsewhere = 0;
  WorkTimer timer([] { return 0.0; });
  timer.leave_out([&elsewhere] { return elsewhere; });
  {
    const WorkTimer::Span span(timer);
    elsewhere = 1e6;
  }
  EXPECT_LT(timer.seconds(), -0.9e6);
}

}  // namespace
}  // namespace zero
