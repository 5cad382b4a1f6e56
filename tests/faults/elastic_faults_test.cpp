// `zero train` of which one rank dies whenever it is there: it goes on without it, on the same samples a step.
#include <fstream>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "../temporary_folder.h"
#include "fault_test.h"

namespace zero {
namespace {

class ElasticFaults : public FaultTest {
 protected:
  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch, and `zero train` needs it";
  }

  // A small GPT-2 without dropout, whose random numbers would be other ones in another world.
  std::vector<std::string> train(const std::string& run, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command{ZERO_COMMAND, "train", "-n", "4"};
    const auto set = [&](const std::string& key, const std::string& value) {
      command.push_back("--" + key);
      command.push_back(value);
    };
    set("model.layers", "1");
    set("model.width", "32");
    set("model.heads", "2");
    set("model.context", "32");
    set("data.path", ZERO_SOURCE_DIR "/examples/shakespeare/input.txt");
    set("data.validation", "0");
    set("train.batch", "2");
    set("train.steps", "24");
    set("train.log_every", "1");
    set("train.eval_every", "0");
    set("checkpoint.every", "7");
    set("checkpoint.async", "false");  // when step 8 is said, step 7 is there
    set("run.threads", "1");
    set("run.max_restarts", "9");
    set("run.min_ranks", "2");
    set("run.dir", folder_ / run);
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  std::vector<double> losses_of(const std::string& run) {
    std::ifstream file(folder_ / run / "report.json");
    return nlohmann::json::parse(file, nullptr, false).value("losses", std::vector<double>());
  }

  TemporaryFolder folder_;
};

TEST_F(ElasticFaults, ARankThatDiesAgainAndAgainIsGivenUpAndTheSamplesOfAStepStay) {
  WatchedCommand undisturbed(train("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  WatchedCommand command(train("run"));
  ASSERT_TRUE(command.wait_for("checkpoint: step 7,")) << command.text();
  strike(command.wait_for_rank(3), SIGKILL);
  ASSERT_TRUE(command.wait_for("starting all ranks again (1 of 9)")) << command.text();
  strike(command.wait_for_rank(3), SIGKILL);  // long before there is another checkpoint
  EXPECT_EQ(command.finish(), 0) << command.text();
  EXPECT_SAYS(command, "not with 3 ranks: train.global_batch = 8: no multiple of 6");
  EXPECT_SAYS(command,
              "going on with 2 of 4 ranks (2 of 9): rank 3 failed twice after step 7; accumulate 1 -> 2 keeps the "
              "global batch of 8");
  EXPECT_SAYS(command, "continuing after step 7");
  EXPECT_SAYS(command, "ranks: 2 ");

  const auto expected = losses_of("undisturbed"), losses = losses_of("run");
  ASSERT_EQ(expected.size(), 24u);
  ASSERT_EQ(losses.size(), 24u);
  for (std::size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step], expected[step], 1e-3) << "step " << step + 1;
  EXPECT_LT(expected.back(), expected.front() - 0.1) << "there was something to differ in";
}

TEST_F(ElasticFaults, MoreThanThereAreIsABadConfiguration) {
  WatchedCommand command(train("run", {"--run.min_ranks", "5"}));
  EXPECT_EQ(command.finish(), 2);
  EXPECT_SAYS(command, "run.min_ranks = 5: more than the 4 that are started");
  WatchedCommand no_restarts(train("run", {"--run.max_restarts", "0"}));
  EXPECT_EQ(no_restarts.finish(), 2);
  EXPECT_SAYS(no_restarts, "run.min_ranks = 2: without restarts there is never another attempt");
}

}  // namespace
}  // namespace zero
