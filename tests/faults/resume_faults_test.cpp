// `zero train` is killed, in any of its processes and at any moment. It continues by itself or by the same command, and
// ends with the weights of an undisturbed run. ZERO_KILLS sets the number of kills (by default 2, in the full tier 48,
// in four parts that run in parallel). docs/reliability.md says how many were made.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <fmt/format.h>

#include "tests/faults/restarts.h"
#include "tests/faults/served_log.h"
#include "tests/faults/struck_run_test.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
constexpr int kWorld = 4;

class ResumeFaults : public StruckRunTest {
 protected:
  // A run with dropout, which takes some seconds.
  std::vector<std::string> four_ranks(const std::string& run, const std::vector<std::string>& more = {}) const {
    return train(run, {"-n", std::to_string(kWorld)},
                 {{"model.dropout", "0.1"},
                  {"data.validation", "0"},
                  {"train.steps", "45"},
                  {"train.log_every", "1"},
                  {"checkpoint.every", "7"},
                  {"run.max_restarts", "20"},
                  {"run.threads", "1"}},
                 more);
  }

  // The run is long enough for kills at any moment.
  std::vector<std::string> many_steps(const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"--train.steps", "400", "--checkpoint.every", "40"};
    all.insert(all.end(), more.begin(), more.end());
    return four_ranks(run, all);
  }
};

int num_kill_parts() {
  return in_full_tier() ? 4 : 1;
}

// One part of the kills.
class ResumeFaultsInParts : public ResumeFaults, public testing::WithParamInterface<int> {
 protected:
  static int num_kills() { return num_trials("ZERO_KILLS", 2, 48) / num_kill_parts(); }
};
INSTANTIATE_TEST_SUITE_P(Part, ResumeFaultsInParts, testing::Range(0, num_kill_parts()));

// Sorts the values. `unit` is "s" or "ms".
std::string spread_of(std::vector<double> values, const char* unit, int digits) {
  if (values.empty()) return "none";
  std::ranges::sort(values);
  const auto at = [&](std::size_t percent) {
    return fmt::format("{:.{}f} {}", values[values.size() * percent / 100], digits, unit);
  };
  return fmt::format("median {}, p99 {}, at most {:.{}f} {}", at(50), at(99), values.back(), digits, unit);
}

TEST_F(ResumeFaults, FindsSocketsThatOutliveARun) {
  // The command passes its descriptors to a process without the command's mark. Both processes end when a file appears,
  // or after a minute.
  const auto until = [](const std::filesystem::path& file) {
    return "for i in $(seq 6000); do if [ -e '" + file.string() + "' ]; then break; fi; sleep 0.01; done";
  };
  const std::filesystem::path seen = folder_ / "seen", over = folder_ / "over";
  WatchedCommand command(
      {"python3", "-c",
       "import os, socket, subprocess, sys\n"
       "tcp = socket.create_server(('127.0.0.1', 0))\n"
       "unix = socket.socket(socket.AF_UNIX)\n"
       "unix.bind('\\0zero-fault-test-%d' % os.getpid())\n"
       "subprocess.Popen(['/bin/sh', '-c', sys.argv[1]], env={}, pass_fds=[tcp.fileno(), unix.fileno()])\n"
       "print('open', flush=True)\n"
       "subprocess.run(['/bin/sh', '-c', sys.argv[2]])\n",
       until(over), until(seen)});
  ASSERT_TRUE(command.wait_for("open")) << command.text();
  command.look_for_sockets();
  std::ofstream(seen) << "now it may end";
  EXPECT_EQ(command.finish(), 0);
  EXPECT_TRUE(command.gone_before(Clock::now() + kAllGone));
  EXPECT_EQ(command.sockets_left().size(), 2u);
  std::ofstream(over) << "now its child may";
  EXPECT_TRUE(command.sockets_gone_before(Clock::now() + kAllGone));
}

// Any process is killed at any moment.
TEST_P(ResumeFaultsInParts, AnyKillKeepsFinalWeights) {
  const Undisturbed usual = leave_alone(many_steps("undisturbed"), "undisturbed");
  // Its ranks listen on TCP ports. A step takes several times as long.
  const std::vector<std::string> over_gloo{"--comm.transport", "gloo"};
  const Undisturbed gloo = ZERO_HAS_GLOO ? leave_alone(four_ranks("gloo", over_gloo), "gloo") : usual;
  std::vector<double> seconds, noticed_ms;
  std::size_t places = 0;
  int hits = 0, trained = 0;
  for (int trial = 0; hits < num_kills() && !HasFailure(); ++trial) {
    ASSERT_LT(trial, 3 * num_kills() + 10) << "most kills come too late";
    const int victim = any_rank(kWorld + 1);  // kWorld: the launcher
    SCOPED_TRACE(
        fmt::format("trial {}, {}", trial, victim == kWorld ? "the launcher" : fmt::format("rank {}", victim)));
    const std::string run = fmt::format("run-{}", trial);
    const bool is_gloo = ZERO_HAS_GLOO && trial % 3 == 2;
    std::vector<std::string> words = is_gloo ? four_ranks(run, over_gloo) : many_steps(run);
    // Every second run also has in-memory checkpoints, which are newer than those on disk.
    if (trial % 2 == 1) words.insert(words.end(), {"--checkpoint.memory_every", "2"});
    const Undisturbed& undisturbed = is_gloo ? gloo : usual;
    auto command = std::make_unique<WatchedCommand>(words);
    const Strike kill(*command, victim == kWorld ? kLauncher : victim, SIGKILL,
                      Clock::now() + any_moment(undisturbed.span));
    hits += kill.hit() ? 1 : 0;
    // Measures the time until the launcher's line is printed.
    if (victim != kWorld && kill.hit() && command->wait_for("zero launch: starting all ranks again"))
      noticed_ms.push_back(1000 * kill.seconds());
    trained += kill.hit() && command->text().find("\nstep ") != std::string::npos ? 1 : 0;
    if (victim == kWorld && kill.hit()) {
      expect_nothing_left(*command);
      command = std::make_unique<WatchedCommand>(words);
    }
    const std::string again = "continuing after step";
    if (kill.hit() && command->wait_for(again) && command->wait_for("\nstep ", command->text().find(again)))
      seconds.push_back(kill.seconds());
    command->look_for_sockets();
    EXPECT_EQ(command->finish(), 0) << command->text();
    expect_nothing_left(*command);
    places += command->sockets_seen().size();
    EXPECT_EQ(weights_of(run), undisturbed.weights) << command->text();
    expect_no_half_file(run);
    fs::remove_all(folder_ / run);
  }
  std::cout << fmt::format(
      "{} kills, {} of them of a run that had made a step; {} went on from a checkpoint, kill to next step: {}; {} of "
      "a "
      "rank, until the launcher had ended the others and said so: {}; {} places to meet were seen, none was left\n",
      hits, trained, seconds.size(), spread_of(seconds, "s", 2), noticed_ms.size(), spread_of(noticed_ms, "ms", 0),
      places);
}

// Checkpoints are only in memory.
TEST_F(ResumeFaults, ContinuesFromTheLaunchersCopy) {
  WatchedCommand undisturbed(four_ranks("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  // Two kills, because new ranks must also save in memory.
  const auto strikes = [this](WatchedCommand& started) {
    return kill_at(started, "\nstep 10/", any_rank(kWorld), "starting all ranks again (1 of 20)") &&
           kill_at(started, "\nstep 30/", any_rank(kWorld), "starting all ranks again (2 of 20)");
  };
  const std::vector<std::string> words =
      four_ranks("killed", {"--checkpoint.every", "0", "--checkpoint.memory_every", "3"});
  const auto killed = struck("killed", words, strikes);
  WatchedCommand& command = *killed;
  EXPECT_EQ(command.finish(), 0) << command.text();
  EXPECT_SAYS(command, "an in-memory checkpoint that the launcher kept, saved by 4 ranks");
  EXPECT_EQ(weights_of("killed"), weights_of("undisturbed")) << command.text();
  EXPECT_FALSE(fs::exists(folder_ / "killed/checkpoints"));
}

// A run with two servers loses one after step 20. The launcher keeps every third step. The tests add their keys in
// `more`.
class KilledServer : public ResumeFaults {
 protected:
  static constexpr std::int64_t kMemoryEvery = 3;

  std::vector<std::string> served(const std::string& run, std::vector<std::string> more, bool in_memory = true) const {
    more.insert(more.end(), {"--sync.servers", "2", "--sync.staleness", "1", "--checkpoint.every", "0"});
    if (in_memory) more.insert(more.end(), {"--checkpoint.memory_every", fmt::format("{}", kMemoryEvery)});
    return four_ranks(run, more);
  }

  void expect_few_steps_lost(const std::vector<std::string>& mode) {
    const auto killed = struck("killed", served("killed", mode), [](WatchedCommand& started) {
      return kill_at(started, "\nstep 20/", 1, "starting all ranks again");
    });
    WatchedCommand& command = *killed;
    EXPECT_EQ(command.finish(), 0) << command.text();
    EXPECT_SAYS(command, "an in-memory checkpoint that the launcher kept, saved by 2 ranks");
    const std::vector<Restart> restarts = restarts_in(command.text());
    ASSERT_EQ(restarts.size(), 1U) << command.text();
    EXPECT_GE(restarts[0].from, 18) << command.text();  // saved before step 20 was printed
    EXPECT_EQ(restarts[0].from % kMemoryEvery, 0);
    EXPECT_LE(restarts[0].repeated(), kMemoryEvery) << command.text();
    EXPECT_FALSE(fs::exists(folder_ / "killed/checkpoints"));
  }
};

TEST_F(KilledServer, CostsStepsSinceTheLaunchersCopy) {
  const std::vector<std::string> stale{"--sync.mode", "stale"};
  WatchedCommand undisturbed(served("undisturbed", stale, false));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  expect_few_steps_lost(stale);
  EXPECT_EQ(weights_of("killed"), weights_of("undisturbed"));
}

TEST_F(KilledServer, CostsAsynchronousRunsNoMore) {
  expect_few_steps_lost({"--sync.mode", "async"});
  const nlohmann::json report = report_of("killed");
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("losses").size(), 45U);
  ServedLog(folder_ / "killed/pushes.log", 2).expect_each_gradient_counted(report, 45);
  for (const nlohmann::json& gradients : report.at("served").at("gradients_of_workers")) EXPECT_GE(gradients, 45);
}

TEST_F(ResumeFaults, StopSavesAndTheCommandContinues) {
  WatchedCommand undisturbed(four_ranks("undisturbed"));
  ASSERT_EQ(undisturbed.finish(), 0) << undisturbed.text();
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const std::string run = fmt::format("signal-{}", signal);
    const auto command = struck(run, four_ranks(run), [signal](WatchedCommand& started) {
      if (!started.wait_for("\nstep 20/")) return false;
      started.send(signal);
      return started.wait_for("the same command continues");
    });
    EXPECT_EQ(command->finish(), 0) << command->text();
    WatchedCommand again(four_ranks(run));
    EXPECT_EQ(again.finish(), 0) << again.text();
    EXPECT_SAYS(again, "continuing after step ");
    EXPECT_EQ(weights_of(run), weights_of("undisturbed")) << again.text();
  }
}

TEST_F(ResumeFaults, StepFailingThriceEndsTheRun) {
  // A file has the name of the checkpoints' folder, so every attempt fails at its first save.
  fs::create_directory(folder_ / "run");
  std::ofstream(folder_ / "run/checkpoints") << "in the way";
  WatchedCommand command(four_ranks("run", {"--checkpoint.on_error", "stop"}));
  EXPECT_EQ(command.finish(), 4) << command.text();
  EXPECT_SAYS(command, "3 failures in a row with nothing to go on from: not started again");
}

}  // namespace
}  // namespace zero
