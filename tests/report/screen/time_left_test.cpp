#include "app/report/screen/time_left.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(TimeLeftTest, IsMedianStepTimesRemainingSteps) {
  TimeLeft left(100);
  EXPECT_EQ(left.seconds(0), 0) << "nothing is known";
  for (const double seconds : {9.0, 2.0, 2.0}) left.step(seconds);
  EXPECT_EQ(left.seconds(3), 194);
  EXPECT_EQ(left.seconds(100), 0);
}

// Only the last steps count.
TEST(TimeLeftTest, FollowsLastSteps) {
  TimeLeft left(1000);
  for (int i = 0; i < 100; ++i) left.step(2);
  for (int i = 0; i < 33; ++i) left.step(4);
  EXPECT_EQ(left.seconds(990), 40);
  for (int i = 0; i < 64; ++i) left.step(1);
  EXPECT_EQ(left.seconds(990), 10);
}

// Evaluations count after the first one is known.
TEST(TimeLeftTest, CountsRemainingEvaluations) {
  TimeLeft left(1000, {.every = 250});
  left.step(1);
  EXPECT_EQ(left.seconds(100), 900);
  left.evaluation(10);
  EXPECT_EQ(left.seconds(300), 720) << "at 500 and 750; the one at the end is another";
  EXPECT_EQ(left.seconds(750), 250);
}

TEST(TimeLeftTest, CountsSimilarLastEvaluation) {
  TimeLeft left(1000, {.every = 250, .last_alike = true});
  left.step(1);
  left.evaluation(10);
  EXPECT_EQ(left.seconds(300), 730);
  EXPECT_EQ(left.seconds(1000), 10);
}

// The weights take 10 seconds, and their averages 4.
TEST(TimeLeftTest, CountsAveragesAndComparisons) {
  TimeLeft left(1000, {.every = 250, .compares = true});
  left.step(1);
  for (int evaluation = 0; evaluation < 2; ++evaluation) {
    left.evaluation(10);
    left.evaluation(4, /*further=*/true);
  }
  EXPECT_EQ(left.seconds(300), 700 + 3 * 14) << "after the steps 500, 750 and 1000";
  EXPECT_EQ(left.seconds(1000), 0);
}

}  // namespace
}  // namespace zero
