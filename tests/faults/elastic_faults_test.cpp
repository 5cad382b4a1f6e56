// Elastic runs: one rank of `zero train` dies whenever it starts. The run continues without it, with as many samples
// per step.
#include <vector>

#include "tests/faults/train_fault_test.h"

namespace zero {
namespace {

class ElasticFaults : public TrainFaultTest {
 protected:
  // Without dropout, because its random numbers would differ with another number of ranks.
  std::vector<std::string> four_ranks(const std::string& run, const std::vector<std::string>& more = {}) const {
    return train(run, {"-n", "4"},
                 {{"data.validation", "0"},
                  {"train.batch", "2"},
                  {"train.steps", "24"},
                  {"train.log_every", "1"},
                  {"train.eval_every", "0"},
                  {"checkpoint.every", "7"},
                  {"checkpoint.async", "false"},
                  {"run.threads", "1"},
                  {"run.max_restarts", "9"},
                  {"run.min_ranks", "2"}},
                 more);
  }

  // Both kills come before the next checkpoint.
  static bool kill_rank_three_twice(WatchedCommand& started) {
    const std::string again = "starting all ranks again (1 of 9)";
    return kill_at(started, "checkpoint: step 7,", 3, again) && kill_at(started, again, 3, "continuing with ") &&
           started.text().find("checkpoint: step 14,") == std::string::npos;
  }

  std::vector<double> losses_of(const std::string& run) const {
    return report_of(run).value("losses", std::vector<double>());
  }
};

// A step has the same samples with fewer ranks.
TEST_F(ElasticFaults, GivesUpARepeatedlyDyingRank) {
  WatchedCommand undisturbed(four_ranks("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  const auto struck_run = struck("run", four_ranks("run"), kill_rank_three_twice);
  WatchedCommand& command = *struck_run;
  EXPECT_EQ(command.finish(), 0) << command.text();
  EXPECT_SAYS(command, "not with 3 ranks: train.global_batch = 8: no multiple of 6");
  EXPECT_SAYS(command,
              "continuing with 2 of 4 ranks (2 of 9): rank 3 failed twice after step 7; accumulate 1 -> 2 keeps the "
              "global batch of 8");
  EXPECT_SAYS(command, "continuing after step 7");
  EXPECT_SAYS(command, "ranks: 2 ");

  const auto expected = losses_of("undisturbed"), losses = losses_of("run");
  ASSERT_EQ(expected.size(), 24u);
  ASSERT_EQ(losses.size(), 24u);
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step], expected[step], 1e-3) << "step " << step + 1;
  EXPECT_LT(expected.back(), expected.front() - 0.1) << "the losses must have changed";
}

// In leaves the smaller world computes the same tree, so the run ends with the undisturbed run's bits.
TEST_F(ElasticFaults, LeavesKeepBitsWithFewerRanks) {
  const std::vector<std::string> leaves{"--train.leaves", "4"};
  WatchedCommand undisturbed(four_ranks("undisturbed", leaves));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  const auto struck_run = struck("run", four_ranks("run", leaves), kill_rank_three_twice);
  EXPECT_EQ(struck_run->finish(), 0) << struck_run->text();
  EXPECT_SAYS(*struck_run, "continuing with 3 of 4 ranks (2 of 9): rank 3 failed twice after step 7");
  EXPECT_EQ(losses_of("run"), losses_of("undisturbed"));
  EXPECT_EQ(report_of("run").value("parameters_sha256", "none"),
            report_of("undisturbed").value("parameters_sha256", "no report"));
}

// Three ranks are no whole lines, so the run continues with one line of two ranks.
TEST_F(ElasticFaults, PipelineContinuesWithFewerLines) {
  const std::vector<std::string> lines{"--model.layers",     "2", "--parallel.pipeline", "2",
                                       "--train.accumulate", "2", "--train.sample",      "0"};
  WatchedCommand undisturbed(four_ranks("undisturbed", lines));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  const auto struck_run = struck("run", four_ranks("run", lines), kill_rank_three_twice);
  EXPECT_EQ(struck_run->finish(), 0) << struck_run->text();
  EXPECT_SAYS(*struck_run, "not with 3 ranks: parallel.pipeline = 2: it must divide the number of ranks");
  EXPECT_SAYS(*struck_run, "accumulate 2 -> 4 keeps the global batch of 8");
  const auto expected = losses_of("undisturbed"), losses = losses_of("run");
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step], expected[step], 1e-3) << "step " << step + 1;
}

// One line of two ranks computes the leaves of two lines, in the same tree.
TEST_F(ElasticFaults, FewerLinesKeepBitsWithLeaves) {
  const std::vector<std::string> lines{"--model.layers", "2", "--parallel.pipeline", "2",
                                       "--train.leaves", "4", "--train.sample",      "0"};
  WatchedCommand undisturbed(four_ranks("undisturbed", lines));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  const auto struck_run = struck("run", four_ranks("run", lines), kill_rank_three_twice);
  EXPECT_EQ(struck_run->finish(), 0) << struck_run->text();
  EXPECT_SAYS(*struck_run, "continuing with 2 of 4 ranks");
  EXPECT_SAYS(*struck_run, "accumulate 2 -> 4 keeps the global batch of 8");
  const std::vector<double> losses = losses_of("run");
  EXPECT_EQ(losses.size(), 24u);
  EXPECT_EQ(losses, losses_of("undisturbed"));
  EXPECT_EQ(report_of("run").value("parameters_sha256", "none"),
            report_of("undisturbed").value("parameters_sha256", "no report"));
}

TEST_F(ElasticFaults, RefusesMinRanksAboveTheWorld) {
  WatchedCommand command(four_ranks("run", {"--run.min_ranks", "5"}));
  EXPECT_EQ(command.finish(), 2);
  EXPECT_SAYS(command, "run.min_ranks = 5: more than the 4 ranks of this run");
  WatchedCommand no_restarts(four_ranks("run", {"--run.max_restarts", "0"}));
  EXPECT_EQ(no_restarts.finish(), 2);
  EXPECT_SAYS(no_restarts, "run.min_ranks = 2: it matters only after a restart, and run.max_restarts = 0");
}

}  // namespace
}  // namespace zero
