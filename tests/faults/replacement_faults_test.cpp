// Workers that are killed in a run with servers, and are restarted without the other ranks. If all workers are gone,
// the servers wait. So no run here ends before a worker is back.
#include <algorithm>

#include <fmt/format.h>

#include "tests/faults/train_fault_test.h"
#include "tests/support/environment_variable.h"
#include "tests/support/occurrences.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
constexpr const char* kAlone = "restarting only this rank";
constexpr const char* kTrains = "step 10/";

// The parameter is the transport. With gloo a process takes longer to return, so only the full tier tests it.
class ReplacementFaults : public TrainFaultTest, public ::testing::WithParamInterface<std::string> {
 protected:
  std::vector<std::string> train(const std::string& run, int ranks, const std::vector<std::string>& more = {}) const {
    return TrainFaultTest::train(run, {"-n", std::to_string(ranks)}, settings(), more);
  }
  static Settings settings() {
    return {{"comm.transport", GetParam()}, {"train.steps", "300"}, {"train.eval_every", "0"},
            {"checkpoint.every", "0"},      {"sync.mode", "async"}, {"sync.staleness", "2"}};
  }

  nlohmann::json undisturbed(const std::string& run, int ranks) {
    WatchedCommand command(train(run, ranks));
    EXPECT_EQ(command.finish(), 0) << command.text();
    return report_of(run);
  }

  void expect_same_bits(const std::string& run, const nlohmann::json& expected) {
    const nlohmann::json report = report_of(run);
    ASSERT_TRUE(report.is_object());
    ASSERT_TRUE(expected.is_object());
    EXPECT_EQ(report.at("loss_bits"), expected.at("loss_bits"));
    EXPECT_EQ(report.at("parameters_sha256"), expected.at("parameters_sha256"));
  }

  // Kills a rank while it trains, and waits until it is started again.
  static auto kill_alone(int rank) {
    return [rank](WatchedCommand& started) { return kill_at(started, kTrains, rank, kAlone); };
  }

  // Waits until `text` has been printed `times` times.
  static bool wait_for_times(WatchedCommand& command, const std::string& text, int times) {
    std::size_t from = 0;
    for (int i = 0; i < times; ++i) {
      if (!command.wait_for(text, from)) return false;
      from = command.text().find(text, from) + text.size();
    }
    return true;
  }

  const EnvironmentVariable level_{"ZERO_LOG_LEVEL", "warn"};
};

std::vector<std::string> transports() {
  std::vector<std::string> names{"shared_memory"};
  if (ZERO_HAS_GLOO && in_full_tier()) names.emplace_back("gloo");
  return names;
}
INSTANTIATE_TEST_SUITE_P(Transports, ReplacementFaults, ::testing::ValuesIn(transports()),
                         [](const auto& transport) { return transport.param; });

// The run has the bits of an undisturbed run.
TEST_P(ReplacementFaults, KilledWorkerReturnsWithSameBits) {
  const nlohmann::json whole = undisturbed("whole", 2);  // with one worker the order is always the same
  const auto killed = struck("run", train("run", 2, {"--run.max_restarts", "3"}), kill_alone(1));
  WatchedCommand& command = *killed;
  ASSERT_TRUE(wait_for_times(command, "rank 1 (worker 0) is back in a new process", 1)) << command.text();
  EXPECT_EQ(command.finish(), 0) << command.text();
  EXPECT_SAYS(command, "rank 1 failed with signal 9 (SIGKILL): restarting only this rank (1 of 3, 2 left)");
  expect_same_bits("run", whole);
  EXPECT_EQ(report_of("run").at("served").at("replaced"), 1);
}

// The servers measured the weights.
TEST_P(ReplacementFaults, ReturningWorkerGetsMeasuredWeights) {
  const nlohmann::json ranges = undisturbed("ranges", 2);
  // The weights are in proportion to memory.
  const std::vector<std::string> keys{"--sync.servers", "2", "--zero.shards", "weighted", "--run.max_restarts", "3"};
  const auto command = struck("run", train("run", 3, keys), kill_alone(2));
  EXPECT_EQ(command->finish(), 0) << command->text();
  expect_same_bits("run", ranges);
  EXPECT_EQ(report_of("run").at("served").at("replaced"), 1);
}

TEST_P(ReplacementFaults, LaunchFlagNamesTheWorkers) {
  std::vector<std::string> launch{built::kCommand, "launch", "-n", "2", "--max-restarts", "1",
                                  "--spared-from", "1",      "--"};
  const std::vector<std::string> program = TrainFaultTest::train("run", {}, settings());
  launch.insert(launch.end(), program.begin(), program.end());
  const auto command = struck("run", launch, kill_alone(1));
  EXPECT_EQ(command->finish(), 0) << command->text();
  EXPECT_SAYS(*command, "rank 1 failed with signal 9 (SIGKILL): restarting only this rank (1 of 1, 0 left)");
  EXPECT_EQ(report_of("run").at("served").at("replaced"), 1);
}

TEST_P(ReplacementFaults, AllWorkersKilledReplaysExactly) {
  const auto killed = struck("run", train("run", 4, {"--run.max_restarts", "3"}), [](WatchedCommand& started) {
    if (!started.wait_for(kTrains)) return false;
    for (const int rank : {2, 1, 3})
      if (const pid_t pid = started.wait_for_rank(rank); pid <= 0 || kill(pid, SIGKILL) != 0) return false;
    return wait_for_times(started, kAlone, 3);
  });
  WatchedCommand& command = *killed;
  EXPECT_EQ(command.finish(), 0) << command.text();
  EXPECT_EQ(occurrences(kAlone, command.text()), 3) << command.text();
  const nlohmann::json report = report_of("run");
  ASSERT_TRUE(report.is_object());
  EXPECT_GE(report.at("served").at("replaced"), 1);
  WatchedCommand again(train("again", 4, {"--replay", folder_ / "run"}));
  EXPECT_EQ(again.finish(), 0) << again.text();
  expect_same_bits("again", report);
}

TEST_P(ReplacementFaults, WithoutRestartsRunEndsWithoutWorker) {
  const auto killed = struck("run", train("run", 2), [](WatchedCommand& started) {
    return kill_at(started, kTrains, 1, "rank 1 (worker 0) is lost");
  });
  WatchedCommand& command = *killed;
  EXPECT_TRUE(command.gone_before(Clock::now() + kAllGone)) << command.text();
  EXPECT_EQ(occurrences(kAlone, command.text()), 0) << command.text();
}

// All ranks end although a replacement is under way.
TEST_P(ReplacementFaults, DeadServerOverridesAReplacement) {
  const auto killed = struck("run", train("run", 2, {"--run.max_restarts", "1"}), [](WatchedCommand& started) {
    return kill_alone(1)(started) && kill_at(started, kAlone, 0, "rank 0 of 2 failed with signal 9 (SIGKILL)");
  });
  WatchedCommand& command = *killed;
  EXPECT_TRUE(command.gone_before(Clock::now() + kAllGone)) << command.text();
  EXPECT_EQ(command.finish(), 3);
}

// A worker is killed at any moment of any of its lives. It may be before it meets the other ranks, in its first
// collectives, while it trains, or while it returns.
TEST_P(ReplacementFaults, WorkerKillsChangeNoBit) {
  const nlohmann::json whole = undisturbed("whole", 2);
  const int rounds = num_trials("ZERO_REPLACEMENT_KILLS", 2, 12);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const std::string run = fmt::format("run-{}", round);
    WatchedCommand command(train(run, 2, {"--run.max_restarts", "9"}));
    for (int life = 0; life < 2; ++life) {
      const milliseconds moment = any_moment(milliseconds(round % 2 == 0 ? 3000 : 600));
      const pid_t worker = command.wait_for_rank(1);
      std::this_thread::sleep_for(moment);
      if (worker <= 0 || kill(worker, SIGKILL) != 0) break;  // the worker has finished
      if (!wait_for_times(command, kAlone, life + 1)) break;
    }
    EXPECT_EQ(command.finish(), 0) << command.text();
    expect_same_bits(run, whole);
  }
}

}  // namespace
}  // namespace zero
