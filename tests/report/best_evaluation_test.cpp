#include "app/report/best_evaluation.h"

#include <cmath>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(BestEvaluation, EarliestOfEqualsStays) {
  BestEvaluation best;
  EXPECT_TRUE(best.add(BestMeasure::kLoss, 10, 2.0));
  EXPECT_FALSE(best.add(BestMeasure::kLoss, 20, 2.0));
  EXPECT_EQ(best.step, 10);
  EXPECT_EQ(best.since, 1);
  EXPECT_TRUE(best.add(BestMeasure::kLoss, 30, 1.5));
  EXPECT_EQ(best.step, 30);
  EXPECT_EQ(best.since, 0);
  EXPECT_EQ(best.evaluated, 30);
}

TEST(BestEvaluation, HighestAccuracyIsBest) {
  BestEvaluation best;
  EXPECT_TRUE(best.add(BestMeasure::kAccuracy, 10, 0.5));
  EXPECT_FALSE(best.add(BestMeasure::kAccuracy, 20, 0.4));
  EXPECT_TRUE(best.add(BestMeasure::kAccuracy, 30, 0.6));
}

TEST(BestEvaluation, NanIsNeverBetter) {
  BestEvaluation best;
  EXPECT_FALSE(best.add(BestMeasure::kLoss, 10, std::nan("")));
  EXPECT_EQ(best.step, -1);
  EXPECT_EQ(best.since, 1);
  EXPECT_TRUE(best.add(BestMeasure::kLoss, 20, 3.0));
  EXPECT_FALSE(best.add(BestMeasure::kLoss, 30, std::nan("")));
  EXPECT_EQ(best.step, 20);
}

TEST(BestEvaluation, AnotherMeasureBeginsAnew) {
  BestEvaluation best;
  best.add(BestMeasure::kLoss, 10, 0.1);
  best.add(BestMeasure::kLoss, 20, 0.2);
  EXPECT_TRUE(best.add(BestMeasure::kAccuracy, 30, 0.05));
  EXPECT_EQ(best.since, 0);
}

TEST(BestEvaluation, SaysWhereItWas) {
  BestEvaluation best{.measure = BestMeasure::kAccuracy, .step = 40, .value = 0.75, .since = 3, .evaluated = 70};
  EXPECT_EQ(describe(best), "the validation accuracy has not improved in 3 evaluations (best 0.7500 at step 40)");
}

}  // namespace
}  // namespace zero
