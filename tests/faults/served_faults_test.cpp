// Runs with servers: ranks are killed while they train, or the run is asked to stop.
#include <filesystem>

#include <fmt/format.h>

#include "tests/faults/train_fault_test.h"
#include "tests/support/environment_variable.h"

namespace zero {
namespace {

class ServedFaults : public TrainFaultTest {
 protected:
  std::vector<std::string> train(const std::string& run, const std::string& steps,
                                 const std::vector<std::string>& more) const {
    return TrainFaultTest::train(run, {"-n", "4"},
                                 {{"train.steps", steps}, {"train.eval_every", "0"}, {"checkpoint.every", "0"}}, more);
  }
  static constexpr const char* kFirstLine = "step 10/";
};

TEST_F(ServedFaults, AsynchronousRunOutlivesAWorker) {
  const EnvironmentVariable level("ZERO_LOG_LEVEL", "warn");
  const auto command =
      struck("run", train("run", "60", {"--sync.mode", "async", "--sync.staleness", "2"}), [](WatchedCommand& started) {
        return kill_at(started, kFirstLine, 2, "rank 2 (worker 1) is lost: the run continues without it");
      });
  EXPECT_EQ(command->finish(), 0) << command->text();
  const nlohmann::json report = report_of("run");
  ASSERT_TRUE(report.is_object()) << command->text();
  EXPECT_EQ(report.at("losses").size(), 60U);
}

// Without restarts the worker's rank stays lost. ReplacementFaults tests restarts.
TEST_F(ServedFaults, AsynchronousGlooRunOutlivesAWorker) {
  if (!ZERO_HAS_GLOO) GTEST_SKIP() << "the plug-in gloo is not built";
  const EnvironmentVariable level("ZERO_LOG_LEVEL", "warn");
  const auto command = struck(
      "run",
      train("run", "60",
            {"--sync.mode", "async", "--sync.servers", "2", "--sync.staleness", "2", "--comm.transport", "gloo"}),
      [](WatchedCommand& started) {
        return kill_at(started, kFirstLine, 3, "rank 3 (worker 1) is lost: the run continues without it");
      });
  EXPECT_EQ(command->finish(), 0) << command->text();
  EXPECT_EQ(command->text().find("restarting only"), std::string::npos) << command->text();
  const nlohmann::json report = report_of("run");
  ASSERT_TRUE(report.is_object()) << command->text();
  EXPECT_EQ(report.at("losses").size(), 60U);
}

TEST_F(ServedFaults, KilledServerEndsAGlooRun) {
  if (!ZERO_HAS_GLOO) GTEST_SKIP() << "the plug-in gloo is not built";
  WatchedCommand command(
      train("run", "100000", {"--sync.mode", "async", "--sync.servers", "2", "--comm.transport", "gloo"}));
  ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
  const auto killed = strike(command.wait_for_rank(1), SIGKILL);
  EXPECT_TRUE(command.gone_before(killed + kAllGone)) << command.text();
  EXPECT_EQ(command.finish(), 3);
  EXPECT_SAYS(command, "rank 1 of 4 failed with signal 9 (SIGKILL)");
}

// The log of a stopped run has no end. After the same command has continued the run, a line says that events are
// missing.
TEST_F(ServedFaults, StoppedRunIsNotReplayed) {
  const std::vector<std::string> async{"--sync.mode", "async", "--sync.staleness", "2", "--checkpoint.every", "100"};
  const auto words = [&](const std::string& run, const std::string& replayed = "") {
    std::vector<std::string> more = async;
    if (!replayed.empty()) more.insert(more.end(), {"--replay", folder_ / replayed});
    return train(run, "200", more);
  };
  const auto expect_no_replay = [&](const std::string& reason) {
    WatchedCommand replay(words("again", "run"));
    EXPECT_EQ(replay.finish(), 2) << replay.text();
    EXPECT_SAYS(replay, "run/pushes.log: line ");
    EXPECT_SAYS(replay, reason);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "again"));
  };
  const auto stopped = struck("run", words("run"), [](WatchedCommand& started) {
    if (!started.wait_for(kFirstLine)) return false;
    started.send(SIGTERM);
    return started.wait_for("the same command continues");
  });
  EXPECT_EQ(stopped->finish(), 0) << stopped->text();
  expect_no_replay("the run was stopped early, or lines are missing");
  WatchedCommand continued(words("run"));
  EXPECT_EQ(continued.finish(), 0) << continued.text();
  expect_no_replay("the run was resumed, and the log lacks some earlier events");
}

TEST_F(ServedFaults, StaleRunNamesTheKilledWorker) {
  WatchedCommand command(train("run", "100000", {"--sync.mode", "stale", "--sync.staleness", "1"}));
  ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
  const auto killed = strike(command.wait_for_rank(3), SIGKILL);
  EXPECT_TRUE(command.gone_before(killed + kAllGone)) << command.text();
  EXPECT_EQ(command.finish(), 3);
  EXPECT_SAYS(command, "rank 3 of 4 failed with signal 9 (SIGKILL)");
}

TEST_F(ServedFaults, KilledServerEndsTheRun) {
  WatchedCommand command(train("run", "100000", {"--sync.mode", "async", "--sync.servers", "2"}));
  ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
  const auto killed = strike(command.wait_for_rank(1), SIGKILL);
  EXPECT_TRUE(command.gone_before(killed + kAllGone)) << command.text();
  EXPECT_EQ(command.finish(), 3);
  EXPECT_SAYS(command, "rank 1 of 4 failed with signal 9 (SIGKILL)");
}

}  // namespace
}  // namespace zero
