// `zero launch --spared-from` on several machines. If a worker is killed, only that worker starts again. If a server
// dies, all ranks start again. The machines are network namespaces.
#include <fmt/format.h>

#include "tests/faults/hosts/hosts_fault_test.h"
#include "tests/support/occurrences.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

class MachinesFaults : public HostsFaultTest {
 protected:
  std::vector<std::string> training(const std::string& run, const std::vector<std::string>& flags,
                                    const std::vector<std::string>& more = {}, int steps = 300) const {
    return train(run, flags,
                 {{"train.steps", std::to_string(steps)},
                  {"train.eval_every", "0"},
                  {"checkpoint.every", "0"},
                  {"run.threads", "1"},
                  {"sync.mode", "async"},
                  {"sync.servers", std::to_string(servers_)},
                  {"sync.staleness", "2"}},
                 more);
  }
  // The first ranks are servers.
  std::vector<std::string> launcher(int host, const std::string& run, int ranks_of_each, int steps = 300,
                                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> keys{"--comm.transport", "gloo"};
    keys.insert(keys.end(), more.begin(), more.end());
    return launch_on(
        host, {"-n", std::to_string(ranks_of_each), "--max-restarts", "9", "--spared-from", std::to_string(servers_)},
        training(run, {}, keys, steps));
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

  // Waits until one of the two texts is printed after `from`. Returns whether it was.
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

  const EnvironmentVariable level_{"ZERO_LOG_LEVEL", "warn"};
  int servers_ = 1;
};

constexpr const char* kStartsAlone = "restarting only this rank";
constexpr const char* kStartsAll = "starting all ranks again";

// A worker of the second machine dies, and the other ranks continue meanwhile.
TEST_F(MachinesFaults, ReplacedWorkerReplaysExactly) {
  constexpr int kSteps = 400;
  WatchedCommand first(launcher(0, "run", 2, kSteps)), second(launcher(1, "run", 2, kSteps));
  ASSERT_TRUE(first.wait_for("step 10/")) << first.text() << second.text();
  const pid_t others[] = {first.wait_for_rank(1), second.wait_for_rank(3)};
  strike(second.wait_for_rank(2), SIGKILL);
  const std::string lost = "rank 2 (worker 1) is lost";
  ASSERT_TRUE(first.wait_for(lost) && first.wait_for("\nstep ", first.text().find(lost))) << first.text();
  // The other ranks have continued. Now they are stopped, or the run could end before rank 2 is back.
  for (const pid_t other : others) strike(other, SIGSTOP);
  ASSERT_TRUE(first.wait_for("rank 2 (worker 1) is back in a new process")) << first.text() << second.text();
  for (const pid_t other : others) strike(other, SIGCONT);
  EXPECT_EQ(first.finish(), 0) << first.text();
  EXPECT_EQ(second.finish(), 0) << second.text();
  EXPECT_SAYS(second, "rank 2 failed with signal 9 (SIGKILL): restarting only this rank (1 of 9, 8 left)");
  EXPECT_SAYS(first, "rank 2 on machine 1 failed with signal 9 (SIGKILL): restarting only this rank (1 of 9, 8 left)");
  EXPECT_EQ(occurrences(kStartsAll, first.text() + second.text()), 0);
  for (WatchedCommand* const command : {&first, &second}) expect_nothing_left(*command);

  const nlohmann::json report = report_of("run");
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("served").at("replaced"), 1);
  run_whole(training("again", {"-n", "4"}, {"--comm.transport", "gloo", "--replay", folder_ / "run"}, kSteps));
  expect_same_bits("again", "run");
}

// A server dies, also together with a worker. Rank 1 is the only worker, so an undisturbed run always has the same
// bits.
TEST_F(MachinesFaults, DeadServerRestartsAll) {
  run_whole(training("whole", {"-n", "2"}));
  const int rounds = num_trials("ZERO_MACHINES_SERVERS", 1, 4);
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

// A worker is killed at any moment of any of its lives. It may be before it meets the other ranks, while it trains, or
// within 40 ms of its return.
TEST_F(MachinesFaults, WorkerKillsChangeNoBit) {
  run_whole(training("whole", {"-n", "2"}));
  const int rounds = num_trials("ZERO_MACHINES_KILLS", 1, 6);
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
      if (worker <= 0 || kill(worker, SIGKILL) != 0) break;  // the worker has finished
      if (!wait_for_either(second, kStartsAlone, kStartsAll, said)) break;
    }
    EXPECT_EQ(first.finish(), 0) << first.text();
    EXPECT_EQ(second.finish(), 0) << second.text();
    expect_same_bits(run, "whole");
    for (WatchedCommand* const command : {&first, &second}) expect_nothing_left(*command);
  }
}

// The second launcher is killed, and the other ranks continue.
TEST_F(MachinesFaults, KilledLauncherLosesOnlyItsWorkers) {
  WatchedCommand first(launcher(0, "run", 2)), second(launcher(1, "run", 2));
  ASSERT_TRUE(first.wait_for("step 10/")) << first.text() << second.text();
  second.send(SIGKILL);
  EXPECT_EQ(second.finish(), 128 + SIGKILL);
  EXPECT_EQ(first.finish(), 0) << first.text();
  EXPECT_SAYS(first, fmt::format("machine 1: its launcher (at {}) is gone, and its ranks with it", Hosts::address(1)));
  for (WatchedCommand* const command : {&first, &second}) expect_nothing_left(*command);
}

// Workers of both machines come back. Ranks 0, 1 and 2 are servers. Rank 3 is a worker beside a server. Ranks 4 and 5
// are workers of a machine without servers.
TEST_F(MachinesFaults, ServersOnTwoMachinesReplayExactly) {
  constexpr int kSteps = 400;
  make_hosts(3);
  if (IsSkipped()) return;
  servers_ = 3;
  WatchedCommand first(launcher(0, "run", 2, kSteps)), second(launcher(1, "run", 2, kSteps)),
      third(launcher(2, "run", 2, kSteps));
  ASSERT_TRUE(first.wait_for("step 10/")) << first.text() << second.text() << third.text();
  const pid_t other = third.wait_for_rank(4);
  strike(second.wait_for_rank(3), SIGKILL);
  strike(third.wait_for_rank(5), SIGKILL);
  for (const char* const lost : {"rank 3 (worker 0) is lost", "rank 5 (worker 2) is lost"})
    ASSERT_TRUE(first.wait_for(lost)) << first.text();
  // The last worker is stopped, or the run could end before the killed workers are back.
  strike(other, SIGSTOP);
  for (const char* const back :
       {"rank 3 (worker 0) is back in a new process", "rank 5 (worker 2) is back in a new process"})
    ASSERT_TRUE(first.wait_for(back)) << first.text() << second.text() << third.text();
  strike(other, SIGCONT);
  WatchedCommand* const commands[] = {&first, &second, &third};
  for (WatchedCommand* const command : commands) EXPECT_EQ(command->finish(), 0) << command->text();
  EXPECT_SAYS(second, "rank 3 failed with signal 9 (SIGKILL): restarting only this rank");
  EXPECT_SAYS(third, "rank 5 failed with signal 9 (SIGKILL): restarting only this rank");
  EXPECT_SAYS(first, "rank 5 on machine 2 failed with signal 9 (SIGKILL): restarting only this rank");
  for (WatchedCommand* const command : commands) {
    EXPECT_EQ(occurrences(kStartsAll, command->text()), 0) << command->text();
    expect_nothing_left(*command);
  }

  const nlohmann::json report = report_of("run");
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("served").at("replaced"), 2);
  run_whole(training("again", {"-n", "6"}, {"--comm.transport", "gloo", "--replay", folder_ / "run"}, kSteps));
  expect_same_bits("again", "run");
}

// A server of either machine dies. Rank 3 is the only worker, so an undisturbed run always has the same bits.
TEST_F(MachinesFaults, DeadServerRestartsFromTheCheckpoint) {
  servers_ = 3;
  run_whole(training("whole", {"-n", "4"}, {"--comm.transport", "gloo"}));
  const int rounds = num_trials("ZERO_MACHINES_SERVERS", 1, 4);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const int victim = 2 - round % 3;  // on the second machine first, then on the first
    SCOPED_TRACE(fmt::format("round {}, server {}", round, victim));
    const std::string run = fmt::format("run-{}", round);
    const std::vector<std::string> saving{"--checkpoint.every", "20"};
    WatchedCommand first(launcher(0, run, 2, 300, saving)), second(launcher(1, run, 2, 300, saving));
    ASSERT_TRUE(first.wait_for("step 30/")) << first.text() << second.text();
    strike((victim == 2 ? second : first).wait_for_rank(victim), SIGKILL);
    EXPECT_EQ(first.finish(), 0) << first.text();
    EXPECT_EQ(second.finish(), 0) << second.text();
    for (WatchedCommand* const command : {&first, &second}) {
      EXPECT_SAYS(*command, fmt::format("rank {} of 4 failed with signal 9 (SIGKILL)", victim));
      EXPECT_SAYS(*command, kStartsAll);
      expect_nothing_left(*command);
    }
    EXPECT_SAYS(first, "continuing after step ");
    expect_same_bits(run, "whole");
  }
}

// When the launcher is started again, all ranks start again.
TEST_F(MachinesFaults, KilledServerLauncherIsNamed) {
  servers_ = 3;
  run_whole(training("whole", {"-n", "4"}, {"--comm.transport", "gloo"}));
  WatchedCommand first(launcher(0, "run", 2)), second(launcher(1, "run", 2));
  ASSERT_TRUE(first.wait_for("step 10/")) << first.text() << second.text();
  second.send(SIGKILL);
  EXPECT_EQ(second.finish(), 128 + SIGKILL);
  ASSERT_TRUE(first.wait_for(kStartsAll)) << first.text();
  EXPECT_SAYS(first, fmt::format("machine 1: its launcher (at {}) is gone, and its ranks with it", Hosts::address(1)));
  WatchedCommand anew(launcher(1, "run", 2));
  EXPECT_EQ(first.finish(), 0) << first.text();
  EXPECT_EQ(anew.finish(), 0) << anew.text();
  expect_same_bits("run", "whole");
  for (WatchedCommand* const command : {&first, &second, &anew}) expect_nothing_left(*command);
}

}  // namespace
}  // namespace zero
