#include "app/report/run_time.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

constexpr RunTimeNeed kNeed{
    .steps = 100, .step_seconds = 0.5, .batch_seconds = 0.25, .eval_every = 25, .eval_batches = 2, .split_batches = 10};

// Two batches after each of the steps 25, 50 and 75, and the whole split at the end.
TEST(RunTime, IsOfStepsAndEvaluations) {
  const RunTime time = run_time(kNeed);
  EXPECT_EQ(time.evaluations, 4);
  EXPECT_DOUBLE_EQ(time.evaluation_seconds, (3 * 2 + 10) * 0.25);
  EXPECT_DOUBLE_EQ(time.total_seconds, 50 + 4);
  EXPECT_EQ(run_time_text(kNeed), "about 54.0 s: 100 steps of 500 ms, and 4 evaluations of 4.00 s together");
}

TEST(RunTime, EvaluationIsLimitedByItsSplit) {
  RunTimeNeed need = kNeed;
  for (const std::int64_t batches : {0, 10, 11}) {
    need.eval_batches = batches;
    EXPECT_DOUBLE_EQ(run_time(need).evaluation_seconds, 4 * 10 * 0.25) << batches;
  }
}

TEST(RunTime, EvaluatesAtEndOnlyWithData) {
  RunTimeNeed need = kNeed;
  need.eval_every = 0;
  EXPECT_EQ(run_time(need).evaluations, 1);
  need.split_batches = 0;
  EXPECT_EQ(run_time(need).evaluations, 0);
  EXPECT_EQ(run_time_text(need), "about 50.0 s: 100 steps of 500 ms");
}

// After step 500 of 2,000 there are evaluations after the steps 600, 900, 1200, 1500 and 1800, and at the end.
TEST(RunTime, ContinuedRunsKeepTheirPlaces) {
  RunTimeNeed need = kNeed;
  need.first_step = 500;
  need.steps = 1500;
  need.eval_every = 300;
  EXPECT_EQ(run_time(need).evaluations, 6);
}

TEST(RunTime, AveragesAndComparisonsCount) {
  RunTimeNeed need = kNeed;
  need.passes = 2;
  EXPECT_EQ(run_time(need).evaluations, 4);
  EXPECT_DOUBLE_EQ(run_time(need).evaluation_seconds, 2 * (3 * 2 + 10) * 0.25);
  need.compares = true;
  EXPECT_EQ(run_time(need).evaluations, 5) << "after step 100 also one like those before";
  EXPECT_DOUBLE_EQ(run_time(need).evaluation_seconds, 2 * (4 * 2 + 10) * 0.25);
}

}  // namespace
}  // namespace zero
