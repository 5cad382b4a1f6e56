// `zero launch --spared-from` on two machines: workers of the second are killed, and start again alone; where the server dies,
// all do. Two network namespaces stand for the machines.
#include <optional>

#include <fmt/format.h>

#include "struck_run_test.h"
#include "tests/environment_variable.h"
#include "tests/hosts.h"
#include "tests/occurrences.h"
#include "tests/tier.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

class MachinesFaults : public StruckRunTest {
 protected:
  void SetUp() override {
    if (!ZERO_CAN_TRAIN || !ZERO_HAS_GLOO) GTEST_SKIP() << "this build has no libtorch, or no plug-in gloo";
    hosts_.emplace(2);
    if (!hosts_->are_there()) GTEST_SKIP() << hosts_->why_not();
  }

  std::vector<std::string> training(const std::string& run, const std::vector<std::string>& flags,
                                    const std::vector<std::string>& more = {}, int steps = 300) const {
    return train(run, flags,
                 {{"train.steps", std::to_string(steps)},
                  {"train.eval_every", "0"},
                  {"checkpoint.every", "0"},
                  {"run.threads", "1"},
                  {"sync.mode", "async"},
                  {"sync.staleness", "2"}},
                 more);
  }
  // Rank 0 is the server.
  std::vector<std::string> launcher(int host, const std::string& run, int ranks_of_each, int steps = 300) const {
    std::vector<std::string> words = hosts_->words_on(host);
    const std::vector<std::string> flags{built::kCommand,
                                         "launch",
                                         "--nnodes",
                                         "2",
                                         "--node-rank",
                                         std::to_string(host),
                                         "--master-addr",
                                         Hosts::address(0),
                                         "-n",
                                         std::to_string(ranks_of_each),
                                         "--max-restarts",
                                         "9",
                                         "--spared-from",
                                         "1",
                                         "--"};
    const std::vector<std::string> program = training(run, {}, {"--comm.transport", "gloo"}, steps);
    for (const auto& part : {flags, program}) words.insert(words.end(), part.begin(), part.end());
    return words;
  }

  void expect_same_bits(const std::string& run, const std::string& expected) const {
    const nlohmann::json of_run = report_of(run), of_expected = report_of(expected);
    ASSERT_TRUE(of_run.is_object() && of_expected.is_object());
    EXPECT_EQ(of_run.at("parameters_sha256"), of_expected.at("parameters_sha256"));
    EXPECT_EQ(of_run.at("loss_bits"), of_expected.at("loss_bits"));
  }
  void run_whole(const std::vector<std::string>& words) const {
    WatchedCommand command(words);
    EXPECT_EQ(command.finish(), 0) << command.text();
  }

  // The first time that one of them is printed from there on: true.
  static bool wait_for_either(WatchedCommand& command, const std::string& one, const std::string& other,
                              std::size_t from) {
    const auto deadline = Clock::now() + std::chrono::minutes(1);
    const auto is_there = [&] {
      return command.text().find(one, from) != std::string::npos ||
             command.text().find(other, from) != std::string::npos;
    };
    while (!is_there() && Clock::now() < deadline) command.read_until(Clock::now() + milliseconds(10));
    return is_there();
  }

  const EnvironmentVariable token_{"ZERO_TOKEN", "a token of the tests"};
  const EnvironmentVariable level_{"ZERO_LOG_LEVEL", "warn"};
  std::optional<Hosts> hosts_;
};

constexpr const char* kStartsAlone = "starting it again alone";
constexpr const char* kStartsAll = "starting all ranks again";

TEST_F(MachinesFaults, AWorkerOfTheSecondComesBackWhileTheOthersGoOnAndTheLogIsReplayedToTheBit) {
  constexpr int kSteps = 400;
  WatchedCommand first(launcher(0, "run", 2, kSteps)), second(launcher(1, "run", 2, kSteps));
  ASSERT_TRUE(first.wait_for("step 10/")) << first.text() << second.text();
  const pid_t others[] = {first.wait_for_rank(1), second.wait_for_rank(3)};
  strike(second.wait_for_rank(2), SIGKILL);
  const std::string lost = "rank 2 (worker 1) is lost";
  ASSERT_TRUE(first.wait_for(lost) && first.wait_for("\nstep ", first.text().find(lost))) << first.text();
  // They have gone on; now they wait, so that the run is not over before rank 2 is back.
  for (const pid_t other : others) strike(other, SIGSTOP);
  ASSERT_TRUE(first.wait_for("rank 2 (worker 1) is back in a new process")) << first.text() << second.text();
  for (const pid_t other : others) strike(other, SIGCONT);
  EXPECT_EQ(first.finish(), 0) << first.text();
  EXPECT_EQ(second.finish(), 0) << second.text();
  EXPECT_SAYS(second, "rank 2 failed with signal 9 (SIGKILL): starting it again alone (1 of 9, 8 left)");
  EXPECT_SAYS(first, "rank 2 on machine 1 failed with signal 9 (SIGKILL): starting it again alone (1 of 9, 8 left)");
  EXPECT_EQ(occurrences(kStartsAll, first.text() + second.text()), 0);
  for (WatchedCommand* const command : {&first, &second}) expect_nothing_left(*command);

  const nlohmann::json report = report_of("run");
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("served").at("replaced"), 1);
  run_whole(training("again", {"-n", "4"}, {"--comm.transport", "gloo", "--replay", folder_ / "run"}, kSteps));
  expect_same_bits("again", "run");
}

// Rank 1 is the only worker, so that an undisturbed run has always the same bits.
TEST_F(MachinesFaults, AServerThatDiesBesideAWorkerStartsAllAgain) {
  run_whole(training("whole", {"-n", "2"}));
  const int rounds = num_trials("ZERO_MACHINES_SERVERS", 1, 12);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const std::string run = fmt::format("run-{}", round);
    WatchedCommand first(launcher(0, run, 1)), second(launcher(1, run, 1));
    ASSERT_TRUE(first.wait_for("step 10/")) << first.text() << second.text();
    const pid_t server = first.wait_for_rank(0), worker = second.wait_for_rank(1);
    strike(round % 2 == 0 ? worker : server, SIGKILL);
    std::this_thread::sleep_for(round < 2 ? milliseconds(0) : any_moment(milliseconds(300)));
    const pid_t other = round % 2 == 0 ? server : second.wait_for_rank(1);
    if (other > 0) kill(other, SIGKILL);
    EXPECT_EQ(first.finish(), 0) << first.text();
    EXPECT_EQ(second.finish(), 0) << second.text();
    EXPECT_SAYS(first, kStartsAll);
    EXPECT_SAYS(second, kStartsAll);
    expect_same_bits(run, "whole");
    for (WatchedCommand* const command : {&first, &second}) expect_nothing_left(*command);
  }
}

// Before it has met the others, while it trains, and within 40 ms of its return.
TEST_F(MachinesFaults, AWorkerKilledAtAnyMomentOfItsLivesChangesNoBit) {
  run_whole(training("whole", {"-n", "2"}));
  const int rounds = num_trials("ZERO_MACHINES_KILLS", 1, 36);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const std::string run = fmt::format("run-{}", round);
    WatchedCommand first(launcher(0, run, 1)), second(launcher(1, run, 1));
    for (int life = 0; life < 2; ++life) {
      const std::size_t said = second.text().size();
      const milliseconds moment = any_moment(milliseconds(life == 1 ? 40 : round % 2 == 0 ? 3000 : 600));
      const std::size_t from = first.text().size();
      if (life == 1 && !wait_for_either(first, "is back in a new process", "\nstep ", from)) break;
      const pid_t worker = second.wait_for_rank(1);
      std::this_thread::sleep_for(moment);
      if (worker <= 0 || kill(worker, SIGKILL) != 0) break;  // it had done its part
      if (!wait_for_either(second, kStartsAlone, kStartsAll, said)) break;
    }
    EXPECT_EQ(first.finish(), 0) << first.text();
    EXPECT_EQ(second.finish(), 0) << second.text();
    expect_same_bits(run, "whole");
    for (WatchedCommand* const command : {&first, &second}) expect_nothing_left(*command);
  }
}

TEST_F(MachinesFaults, WhenTheSecondLauncherIsKilledItsWorkersAreLostAndTheOthersGoOn) {
  WatchedCommand first(launcher(0, "run", 2)), second(launcher(1, "run", 2));
  ASSERT_TRUE(first.wait_for("step 10/")) << first.text() << second.text();
  second.send(SIGKILL);
  EXPECT_EQ(second.finish(), 128 + SIGKILL);
  EXPECT_EQ(first.finish(), 0) << first.text();
  EXPECT_SAYS(first, fmt::format("machine 1: its launcher (at {}) is gone, and its ranks with it", Hosts::address(1)));
  for (WatchedCommand* const command : {&first, &second}) expect_nothing_left(*command);
}

}  // namespace
}  // namespace zero
