#include "app/launch/launch.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "zero/base/error/error.h"

#include "app/launch/failure_report.h"
#include "app/launch/held/memory_files.h"
#include "app/launch/ranks/cores.h"
#include "tests/launch/launched.h"
#include "tests/support/environment_variable.h"
#include "tests/support/occurrences.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// The process numbers that ranks printed as "pid 123".
std::vector<pid_t> pids(const std::string& text) {
  std::vector<pid_t> out;
  const std::regex pattern("pid ([0-9]+)");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    out.push_back(std::stoi((*it)[1]));
  return out;
}

// Parts of a rank's script, which runs in the folder. there(): announces this rank. until_there(): waits for these
// ranks. until_gone(): waits until a rank has ended and the launcher knows it. None has a limit, because ctest ends a
// run that hangs.
std::string there(const TemporaryFolder& folder) {
  return fmt::format("cd {}; echo $$ > new.$RANK; mv new.$RANK $RANK; ", folder.path().string());
}
std::string until_there(std::initializer_list<int> ranks) {
  std::string text;
  for (const int rank : ranks) text += fmt::format("until [ -e {} ]; do sleep 0.01; done; ", rank);
  return text;
}
std::string until_gone(int rank) {
  return until_there({rank}) + fmt::format("while [ -d /proc/$(cat {}) ]; do sleep 0.01; done; ", rank);
}
constexpr std::chrono::minutes kHoweverBusy{5};  // ends only a broken run, not a busy one

TEST(Launch, RanksGetPlaceAndPrefix) {
  const Outcome outcome = run_launch(script(3, "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(lines(outcome.output), (std::multiset<std::string>{"0/3 0/3", "[rank 1] 1/3 1/3", "[rank 2] 2/3 2/3"}));
  EXPECT_EQ(outcome.errors, "");
}

// Another run has another id and port.
TEST(Launch, RanksShareRunIdAndPort) {
  const auto ids = [] { return lines(run_launch(script(2, "echo x $ZERO_RUN_ID $MASTER_PORT")).output); };
  const auto first = ids();
  ASSERT_EQ(first.size(), 2u);
  std::set<std::string> distinct;
  for (const auto& line : first) distinct.insert(line.substr(line.find('x')));
  EXPECT_EQ(distinct.size(), 1u);
  EXPECT_NE(first, ids());
}

TEST(Launch, RanksShareAPrivateToken) {
  unsetenv("ZERO_TOKEN");
  unsetenv("ZERO_TOKEN_FILE");
  const TemporaryFolder folder;
  LaunchOptions options = script(2, fmt::format("echo $ZERO_TOKEN > {}/$ZERO_GENERATION-$RANK; "
                                                "stat -c 'mode %a' /proc/$$/environ; exit 1",
                                                folder.path().string()));
  options.max_restarts = 1;
  options.witness = kHoweverBusy;  // both ranks are heard
  const Outcome outcome = run_launch(options);
  const auto token = [&](const char* name) {
    std::string line;
    std::getline(std::ifstream(folder / name), line);
    return line;
  };
  EXPECT_TRUE(std::regex_match(token("0-0"), std::regex("[0-9a-f]{64}"))) << token("0-0");
  EXPECT_EQ(token("0-0"), token("0-1"));
  EXPECT_EQ(token("1-0"), token("1-1"));
  EXPECT_NE(token("0-0"), token("1-0"));
  for (const char* name : {"0-0", "1-0"})
    EXPECT_EQ((outcome.output + outcome.errors).find(token(name)), std::string::npos) << "the token is secret";
  EXPECT_EQ(lines(outcome.output).count("mode 400"), 2u) << outcome.output;
}

TEST(Launch, TheUsersTokenIsNotReplaced) {
  {
    const EnvironmentVariable token("ZERO_TOKEN", "the user's own one");
    EXPECT_EQ(run_launch(script(1, "echo $ZERO_TOKEN")).output, "the user's own one\n");
  }
  const EnvironmentVariable file("ZERO_TOKEN_FILE", "/home/me/token");
  EXPECT_EQ(run_launch(script(1, "echo ${ZERO_TOKEN-none} $ZERO_TOKEN_FILE")).output, "none /home/me/token\n");
}

TEST(Launch, PrintsEqualErrorLinesOnce) {
  // The launcher is stopped while the ranks print. So it reads all lines within the window in which it joins equal
  // lines.
  const TemporaryFolder folder;
  LaunchOptions options = script(3, there(folder) + until_there({0, 1, 2}) + R"sh(
if [ $RANK = 0 ]; then
  kill -STOP $PPID
  until grep -q '^State:.T' /proc/$PPID/status; do sleep 0.01; done
  : > stopped
fi
until [ -e stopped ]; do sleep 0.01; done
echo 'train.steps = 0: out of range' >&2
: > said.$RANK
if [ $RANK = 0 ]; then
  until [ -e said.1 ] && [ -e said.2 ]; do sleep 0.01; done
  kill -CONT $PPID
fi
exit 2)sh");
  options.witness = kHoweverBusy;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 2);
  const std::regex line("\\[rank[^\\]]*\\] train.steps = 0: out of range");
  const auto printed =
      std::distance(std::sregex_iterator(outcome.errors.begin(), outcome.errors.end(), line), std::sregex_iterator());
  EXPECT_EQ(printed, 1) << outcome.errors;
}

TEST(Launch, ASingleRankIsNotPrefixed) {
  const Outcome outcome = run_launch(script(1, "echo out; echo err >&2"));
  EXPECT_EQ(outcome.output, "out\n");
  EXPECT_EQ(outcome.errors, "err\n");
}

TEST(Launch, LastLineNeedsNoNewline) {
  EXPECT_EQ(run_launch(script(1, "printf 'no newline'")).output, "no newline\n");
}

TEST(Launch, OneFailureEndsAllNamesRank) {
  const TemporaryFolder folder;
  const Outcome outcome = run_launch(script(3, "echo pid $$; " + there(folder) + "[ $RANK = 1 ] || sleep 100; " +
                                                   until_there({0, 2}) + "echo broken >&2; exit 7"));
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.errors.find("rank 1 of 3 failed with exit status 7"), std::string::npos) << outcome.errors;
  EXPECT_EQ(occurrences("broken", outcome.errors), 1) << outcome.errors;
  EXPECT_EQ(pids(outcome.output).size(), 3u);
  EXPECT_TRUE(all_gone(pids(outcome.output)));
}

TEST(Launch, ExpendableRankEndsNobody) {
  const TemporaryFolder folder;
  LaunchOptions options =
      script(3, there(folder) + "if [ $RANK = 2 ]; then kill -9 $$; fi; " + until_gone(2) + "echo done");
  options.spared_from = 1;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(lines(outcome.output), (std::multiset<std::string>{"done", "[rank 1] done"}));
  options.program = script(3, "if [ $RANK = 2 ]; then exit 2; fi; sleep 100").program;
  EXPECT_EQ(run_launch(options).status, 2) << "a refusal ends all ranks";
}

TEST(Launch, KilledRankIsNamedWithSignal) {
  const Outcome outcome = run_launch(script(2, "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 100"));
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.errors.find("rank 1 of 2 failed with signal 9 (SIGKILL)"), std::string::npos) << outcome.errors;
}

// The launcher kills such ranks within a second.
TEST(Launch, KillsRanksThatIgnoreSigterm) {
  // The test checks the launcher's own limits, because a busy machine may take longer.
  EXPECT_LE(LaunchOptions{}.witness + LaunchOptions{}.grace, std::chrono::seconds(1));
  const TemporaryFolder folder;
  const Outcome outcome =
      run_launch(script(2, "trap '' TERM; echo pid $$; " + there(folder) + until_there({0, 1}) +
                               "[ $RANK = 0 ] || exit 1; while :; do sleep 0.05; done"));  // ends only if it is killed
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(pids(outcome.output).size(), 2u);
  EXPECT_TRUE(all_gone(pids(outcome.output)));
}

TEST(Launch, RankThatLostPeersIsWitness) {
  const TemporaryFolder folder;
  LaunchOptions options =
      script(2, there(folder) + "if [ $RANK = 0 ]; then echo 'rank 1: all_gather: closed' >&2; exit 3; fi; " +
                    until_gone(0) + "kill -9 $$");
  options.witness = kHoweverBusy;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.errors.find("rank 1 of 2 failed with signal 9"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("rank 0 then failed with exit status 3\n"), std::string::npos) << outcome.errors;
  EXPECT_EQ(occurrences("rank 1: all_gather: closed", outcome.errors), 1) << outcome.errors;
}

TEST(Launch, ConfigurationAndFileErrorsKeepStatus) {
  EXPECT_EQ(run_launch(script(2, "exit 2")).status, 2);
  EXPECT_EQ(run_launch(script(2, "exit 4")).status, 4);
}

TEST(Launch, LastLinesAreTheLastTwenty) {
  LaunchOptions options = script(2, "for i in $(seq 1 30); do echo line$i; done; exit $RANK");
  options.shown_ranks = {0};
  const Outcome outcome = run_launch(options);
  const std::string report = outcome.errors.substr(outcome.errors.find("last lines"));
  EXPECT_EQ(report.find("line10\n"), std::string::npos) << report;
  EXPECT_NE(report.find("line11\n"), std::string::npos) << report;
  EXPECT_NE(report.find("line30\n"), std::string::npos) << report;
}

// The launcher prints nothing else.
TEST(Launch, PrintsACommonRefusalOnce) {
  // Each rank prints after the previous rank.
  const TemporaryFolder folder;
  LaunchOptions options = script(4, "cd " + folder.path().string() +
                                        "; until [ $RANK = 0 ] || [ -e $((RANK - 1)) ]; do sleep 0.01; done; "
                                        "echo 'zero train: zero.stage = 7: no such' >&2; echo '  use 0 to 3' >&2; "
                                        ": > $RANK; exit 2");
  options.witness = kHoweverBusy;  // all ranks are heard
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(outcome.errors.starts_with("zero train: zero.stage = 7: no such\n  use 0 to 3\n")) << outcome.errors;
  EXPECT_EQ(occurrences("zero.stage", outcome.errors), 1) << outcome.errors;
}

// The line is printed once, for the rank that failed first.
TEST(Launch, PrintsFirstLineOfLibtorchErrors) {
  const TemporaryFolder folder;
  const std::string of_four = R"sh(
if [ $RANK != 2 ]; then echo 'zero train: rank 2: all_gather: it left' >&2; exit 3; fi
)sh" + until_gone(0) + until_gone(1) +
                              until_gone(3) + R"sh(
echo 'zero train: rank 2: index out of range in self' >&2
echo 'Exception raised from index at Index.cpp:1 (most recent call first):' >&2
for i in $(seq 0 40); do echo "frame #$i: <unknown function> + 0x0 (0x0 in libtorch_cpu.so)" >&2; done
echo >&2
exit 3)sh";
  LaunchOptions options = script(4, there(folder) + of_four);
  options.witness = kHoweverBusy;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.errors.find("rank 2 of 4 failed with exit status 3"), std::string::npos) << outcome.errors;
  EXPECT_EQ(occurrences("index out of range in self", outcome.errors), 1) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("it left"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("frame #"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("ZERO_LOG_LEVEL=debug"), std::string::npos) << "how to see it: " << outcome.errors;
  EXPECT_LE(count_lines(outcome.errors), 4) << outcome.errors;
}

// The rank ends well.
TEST(Launch, ShowsHarmlessFailureLines) {
  const Outcome outcome = run_launch(script(2, "if [ $RANK = 1 ]; then echo 'zero bench: slow' >&2; fi"));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.errors, "[rank 1] zero bench: slow\n");
}

TEST(Launch, ForwardsStopsAndSavedRanksSucceed) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launched launched(script(2, "trap 'echo saved; exit 0' INT TERM; echo ready $RANK; while :; do sleep 0.02; done"));
    ASSERT_TRUE(launched.wait_for("ready 0\n") && launched.wait_for("ready 1\n"));
    launched.send(signal);
    const Outcome outcome = launched.finish();
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find("[rank 1] saved"), std::string::npos);
    EXPECT_EQ(outcome.errors.find("failed"), std::string::npos) << outcome.errors;
  }
}

TEST(Launch, UnsavedStopHasTheSignalsStatus) {
  Launched launched(script(1, "echo ready; sleep 100"));
  ASSERT_TRUE(launched.wait_for("ready"));
  launched.send(SIGTERM);
  EXPECT_EQ(launched.finish().status, 128 + SIGTERM);
}

TEST(Launch, ASecondSignalKills) {
  Launched launched(script(1, "trap 'echo first' INT; echo ready pid $$; while :; do sleep 0.02; done"));
  ASSERT_TRUE(launched.wait_for("ready"));
  launched.send(SIGINT);
  ASSERT_TRUE(launched.wait_for("first"));
  launched.send(SIGINT);
  const Outcome outcome = launched.finish();
  EXPECT_EQ(outcome.status, 128 + SIGINT);
  EXPECT_TRUE(all_gone(pids(outcome.output)));
}

TEST(Launch, UserSignalsOnlyReachTheRanks) {
  Launched launched(script(1, "trap 'echo noted; exit 0' USR1; echo ready; while :; do sleep 0.02; done"));
  ASSERT_TRUE(launched.wait_for("ready"));
  launched.send(SIGUSR1);
  const Outcome outcome = launched.finish();
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.output.find("noted"), std::string::npos);
}

TEST(Launch, KilledLauncherLeavesNoDescendant) {
  Launched launched(script(2, "sleep 100 & echo pid $! pid $$; echo ready $RANK; wait"));
  ASSERT_TRUE(launched.wait_for("ready 0\n") && launched.wait_for("ready 1\n"));
  launched.send(SIGKILL);
  const Outcome outcome = launched.finish();
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  const auto processes = pids(outcome.output);
  EXPECT_GE(processes.size(), 2u);
  EXPECT_TRUE(all_gone(processes)) << outcome.output;
}

TEST(Launch, StoppedRanksAreEndedToo) {
  const TemporaryFolder folder;
  const Outcome outcome = run_launch(
      script(2, "echo pid $$; " + there(folder) + "if [ $RANK = 0 ]; then kill -STOP $$; fi; " + until_there({0}) +
                    "until grep -q '^State:.T' /proc/$(cat 0)/status; do sleep 0.01; done; exit 1"));
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(pids(outcome.output).size(), 2u);
  EXPECT_TRUE(all_gone(pids(outcome.output)));
}

TEST(Launch, RestartsAllSoOftenAsAsked) {
  LaunchOptions options = script(2, "echo try $TORCHELASTIC_RESTART_COUNT; [ $TORCHELASTIC_RESTART_COUNT = 2 ]");
  options.max_restarts = 2;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("[rank 1] try 2"), std::string::npos) << outcome.output;
  options.max_restarts = 1;
  EXPECT_EQ(run_launch(options).status, 3);
}

TEST(Launch, DoesNotRetryABadConfiguration) {
  LaunchOptions options = script(1, "echo try; exit 2");
  options.max_restarts = 3;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.output, "try\n");
}

// Runs `text` on four ranks, which may become fewer.
LaunchOptions elastic(const std::string& text, int max_restarts, int min_ranks) {
  LaunchOptions options = script(4, text);
  options.max_restarts = max_restarts;
  options.min_ranks = min_ranks;
  return options;
}

const std::string kThirdOfFourFails =
    "if [ $WORLD_SIZE = 4 ]; then [ $LOCAL_RANK != 2 ] || exit 9; sleep 100; fi; echo $RANK/$WORLD_SIZE";

TEST(Launch, GivesUpAFailingRank) {
  LaunchOptions options = elastic(kThirdOfFourFails + " $LOCAL_RANK/$LOCAL_WORLD_SIZE", 3, 2);
  options.progress = [](const MemoryFiles&) { return 40; };
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(lines(outcome.output), (std::multiset<std::string>{"0/3 0/3", "[rank 1] 1/3 1/3", "[rank 2] 2/3 2/3"}));
  EXPECT_NE(outcome.errors.find("zero launch: starting all ranks again (1 of 3)\n"), std::string::npos);
  EXPECT_NE(
      outcome.errors.find("zero launch: continuing with 3 of 4 ranks (2 of 3): rank 2 failed twice after step 40\n"),
      std::string::npos)
      << outcome.errors;
}

TEST(Launch, NeverFewerThanMinRanks) {
  for (const int min_ranks : {0, 4}) {
    const Outcome outcome = run_launch(elastic(kThirdOfFourFails, 3, min_ranks));
    EXPECT_EQ(outcome.status, 3);
    EXPECT_EQ(outcome.output, "");
    EXPECT_NE(outcome.errors.find("again (3 of 3)"), std::string::npos) << outcome.errors;
  }
}

// The smaller world cannot run the configuration.
TEST(Launch, SkipsASmallerWorldThatFails) {
  LaunchOptions options = elastic(kThirdOfFourFails, 3, 1);
  options.program_for = [](int world) -> WorldProgram {
    if (world == 3) throw ConfigError("batch", "8", "no multiple of 3", "");
    return {.words = {"/bin/sh", "-c", fmt::format("echo other of $WORLD_SIZE {}", world)}, .change = "batch 2 -> 4"};
  };
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(lines(outcome.output), (std::multiset<std::string>{"other of 2 2", "[rank 1] other of 2 2"}));
  EXPECT_NE(outcome.errors.find("not with 3 ranks: batch = 8: no multiple of 3"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("continuing with 2 of 4 ranks (2 of 3): rank 2 failed twice in a row; batch 2 -> 4\n"),
            std::string::npos)
      << outcome.errors;
}

TEST(Launch, NoSmallerWorldEndsWithReasons) {
  LaunchOptions options = elastic(kThirdOfFourFails, 3, 2);
  options.program_for = [](int world) -> WorldProgram { throw ConfigError("world", std::to_string(world), "no", ""); };
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 3);
  for (const char* part :
       {"not with 3 ranks: world = 3: no", "not with 2 ranks: world = 2: no",
        "rank 2 failed twice in a row, and this run cannot continue with fewer ranks: not started again\n"}) {
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
  }
}

// The run continues with the ranks that could be started.
TEST(Launch, ContinuesIfProcessesRunOut) {
  // Descriptors, five for each rank, replace processes here, because a test may limit them.
  LaunchOptions options = script(8, "[ $RANK != 7 ] || exit 9; sleep 100");
  options.max_restarts = 3;
  options.min_ranks = 2;
  options.progress = [](const MemoryFiles&) {  // the launcher calls this after the first attempt
    const rlimit few{.rlim_cur = 30, .rlim_max = 30};
    setrlimit(RLIMIT_NOFILE, &few);
    return 0;
  };
  options.program_for = [&](int) -> WorldProgram { return {.words = {"/bin/sh", "-c", "echo $RANK/$WORLD_SIZE"}}; };
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const std::regex line(
      "zero launch: continuing with ([2-7]) of 8 ranks \\(2 of 3\\): rank \\1 could not be started\n");
  std::smatch ranks;
  ASSERT_TRUE(std::regex_search(outcome.errors, ranks, line)) << outcome.errors;
  EXPECT_EQ(std::to_string(lines(outcome.output).size()), ranks[1]) << outcome.output;
}

TEST(Launch, EachAttemptIsAnotherGeneration) {
  LaunchOptions options =
      script(1, "echo $ZERO_GENERATION $TORCHELASTIC_RESTART_COUNT $ZERO_RUN_ID; [ $ZERO_GENERATION = 2 ]");
  options.max_restarts = 2;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_TRUE(std::regex_match(outcome.output, std::regex("0 0 ([0-9a-f]+)\n1 1 \\1-1\n2 2 \\1-2\n")))
      << outcome.output;
}

TEST(Launch, HidesRanksButNotFailures) {
  const TemporaryFolder folder;
  LaunchOptions options =
      script(2, "echo from $RANK; echo err $RANK >&2; " + there(folder) + until_there({0, 1}) + "[ $RANK = 0 ]");
  options.shown_ranks = {0};
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.output, "from 0\n");
  EXPECT_NE(outcome.errors.find("rank 1 of 2 failed with exit status 1"), std::string::npos);
}

TEST(Launch, ManyRanksOnFewCoresWork) {
  const Outcome outcome = run_launch(script(32, "echo $RANK"));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(lines(outcome.output).size(), 32u);
}

TEST(Launch, MuchOutputComesThroughWhole) {
  const Outcome outcome =
      run_launch(script(2, "i=0; while [ $i -lt 3000 ]; do echo abcdefghijklmnopqrstuvwxyz; i=$((i+1)); done"));
  const auto all = lines(outcome.output);
  EXPECT_EQ(all.count("abcdefghijklmnopqrstuvwxyz"), 3000u);
  EXPECT_EQ(all.count("[rank 1] abcdefghijklmnopqrstuvwxyz"), 3000u);
}

// Runs the launcher with its standard output on a terminal, and returns the shown text.
std::string on_a_terminal(const LaunchOptions& options) {
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (pid == 0) _exit(launch(options));
  std::string shown;
  char bytes[256];
  ssize_t got = 0;
  while ((got = read(terminal, bytes, sizeof bytes)) > 0) shown.append(bytes, static_cast<std::size_t>(got));
  close(terminal);
  waitpid(pid, nullptr, 0);
  return shown;
}

// Other ranks have pipes.
TEST(Launch, TerminalBelongsToRankZero) {
  const std::string shown = on_a_terminal(script(2, "if [ -t 1 ]; then echo $RANK terminal; else echo $RANK pipe; fi"));
  EXPECT_NE(shown.find("0 terminal"), std::string::npos) << shown;
  EXPECT_NE(shown.find("[rank 1] 1 pipe"), std::string::npos) << shown;
}

TEST(Launch, OnATerminalNobodyReadsIt) {
  // A rank that reads the terminal from the background would be stopped forever.
  EXPECT_NE(on_a_terminal(script(1, "cat; echo end")).find("end"), std::string::npos);
}

TEST(Launch, IgnoresAnOuterTorchrunStore) {
  const EnvironmentVariable store("TORCHELASTIC_USE_AGENT_STORE", "True");
  EXPECT_EQ(run_launch(script(1, "echo $TORCHELASTIC_USE_AGENT_STORE")).output, "False\n");
}

TEST(Launch, BindsRanksToCoreShares) {
  LaunchOptions options = script(1, "grep Cpus_allowed_list /proc/self/status");
  const auto cores = allowed_cores();
  options.ranks = static_cast<int>(cores.size());
  const auto bound = lines(run_launch(options).output);
  EXPECT_TRUE(bound.contains("Cpus_allowed_list:\t" + std::to_string(cores.front()))) << "one core each";
  if (cores.size() == 1) return;
  options.bind_cores = false;
  EXPECT_FALSE(lines(run_launch(options).output).contains("Cpus_allowed_list:\t" + std::to_string(cores.front())));
}

TEST(Launch, FailedRankEndsItsChildren) {
  const Outcome outcome = run_launch(script(1, "sleep 100 & echo pid $!; exit 1"));
  EXPECT_EQ(outcome.status, 3);
  EXPECT_TRUE(all_gone(pids(outcome.output)));
}

TEST(Launch, RestartChangesTheRunId) {
  LaunchOptions options =
      script(1, "echo id $ZERO_RUN_ID name $TORCHELASTIC_RUN_ID; [ $TORCHELASTIC_RESTART_COUNT = 1 ]");
  options.max_restarts = 1;
  options.run_name = "job";
  const auto tries = lines(run_launch(options).output);
  EXPECT_EQ(tries.size(), 2u);
  EXPECT_NE(*tries.begin(), *tries.rbegin()) << "ranks must not find sockets of the first attempt";
  for (const auto& line : tries) EXPECT_TRUE(line.ends_with("name job")) << line;
}

// The run has several machines.
TEST(Launch, NodeOffsetsTheRanks) {
  LaunchOptions options = script(2, "echo $RANK/$WORLD_SIZE $LOCAL_RANK $GROUP_RANK $ZERO_RUN_ID");
  options.nodes = 2;
  options.node_rank = 1;
  options.run_name = "job";
  options.master_port = 1234;
  EXPECT_EQ(lines(run_launch(options).output),
            (std::multiset<std::string>{"[rank 2] 2/4 0 1 job", "[rank 3] 3/4 1 1 job"}));
}

TEST(Launch, MachinesShareAnUnnamedRunsId) {
  LaunchOptions options = script(1, "echo $ZERO_RUN_ID");
  options.nodes = 2;
  options.master_address = "host0";
  options.master_port = 1234;
  const std::string first = run_launch(options).output;
  options.node_rank = 1;
  EXPECT_EQ(run_launch(options).output, first);
}

// Launchers of other machines count their own attempts, so the id does not depend on the count.
TEST(Launch, MachinesKeepTheIdOnRestart) {
  LaunchOptions options = script(1, "echo $ZERO_RUN_ID; [ $TORCHELASTIC_RESTART_COUNT = 1 ]");
  options.nodes = 2;
  options.master_port = 1234;
  options.max_restarts = 1;
  EXPECT_EQ(lines(run_launch(options).output), (std::multiset<std::string>{"127.0.0.1-1234", "127.0.0.1-1234"}));
}

// The name of the run is that of each launch at this address.
TEST(Launch, EachLaunchHasItsOwnName) {
  LaunchOptions options = script(1, "echo $ZERO_LAUNCH_ID; [ $TORCHELASTIC_RESTART_COUNT = 1 ]");
  options.nodes = 2;
  options.master_port = 1234;
  options.max_restarts = 1;
  const auto first = lines(run_launch(options).output), second = lines(run_launch(options).output);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(*first.begin(), *first.rbegin()) << "a restart belongs to the launch";
  EXPECT_FALSE(first.begin()->empty());
  EXPECT_NE(first, second);
}

TEST(Launch, RanksKeepTheirLimitOfDescriptors) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lower{.rlim_cur = before.rlim_cur / 2, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_EQ(run_launch(script(1, "ulimit -n")).output, fmt::format("{}\n", lower.rlim_cur));
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Launch, MissingProgramIsReportedOnce) {
  LaunchOptions options = script(2, "");
  options.program = {"/no/such/program"};
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 99);  // this test's status for an exception
  EXPECT_TRUE(outcome.errors.starts_with("program = /no/such/program: No such file")) << outcome.errors;
}

}  // namespace
}  // namespace zero
