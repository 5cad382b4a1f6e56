// Launchers of several machines whose workers may be lost. All run on this machine. The first ranks are servers, the
// others workers.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zero/base/files/file.h"

#include "app/launch/launch.h"
#include "tests/launch/launched.h"
#include "tests/support/environment_variable.h"
#include "tests/support/expect_contains.h"
#include "tests/support/occurrences.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

constexpr const char* kAgainAlone = "restarting only this rank";
constexpr const char* kAgainAll = "starting all ranks again";

bool is_free(int port) {
  const FileDescriptor fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(port));
  return bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

// Scripts run in a folder that all machines share: `: > file` in one rank, and `until [ -e file ]` in another.
class Machines : public ::testing::Test {
 protected:
  LaunchOptions machine(int number, int max_restarts, const std::string& text) const {
    LaunchOptions options = script(1, fmt::format("cd {}; {}", folder_.path().string(), text));
    options.nodes = 2;
    options.node_rank = number;
    options.master_port = port_;
    options.spared_from = 1;
    options.max_restarts = max_restarts;
    return options;
  }
  // Options of a launcher of three machines. The first two have servers, the third a worker.
  LaunchOptions of_three(int number, int max_restarts, const std::string& text) const {
    LaunchOptions options = machine(number, max_restarts, text);
    options.nodes = 3;
    options.spared_from = 2;
    return options;
  }
  static std::string await(const std::string& file) {
    return fmt::format("until [ -e {} ]; do sleep 0.01; done; ", file);
  }
  void make(const std::string& file) const { folder_.write(file, ""); }
  // In a script: writes the process number of the rank's launcher.
  static constexpr const char* kPrintLauncher = "echo $PPID > new; mv new launcher; ";
  // That launcher can open no more descriptors, so it can start no rank. Standard streams, descriptors of a launcher
  // that was started before, and its own take all numbers below the limit.
  void exhaust_launcher() const {
    ASSERT_TRUE(eventually([this] { return std::filesystem::exists(folder_ / "launcher"); }));
    pid_t launcher = 0;
    std::ifstream(folder_ / "launcher") >> launcher;
    const rlimit few{.rlim_cur = 6, .rlim_max = 6};
    ASSERT_EQ(prlimit(launcher, RLIMIT_NOFILE, &few, nullptr), 0);
  }
  std::string place_of_first() const { return fmt::format("machine 0: its launcher at 127.0.0.1:{}", port_ + 1); }

  const TemporaryFolder folder_;
  const EnvironmentVariable token_{"ZERO_TOKEN", "a token of the tests"};

 private:
  static int free_pair() {
    static int next = 20000 + getpid() % 10000;
    while (!is_free(next) || !is_free(next + 1)) next += 2;
    return std::exchange(next, next + 2);
  }
  const int port_ = free_pair();
};

TEST_F(Machines, RestartsSecondMachinesWorkerOnly) {
  Launched first(machine(0, 2, await("back") + "echo server"));
  Launched second(machine(1, 2,
                          "if [ -z \"$ZERO_REPLACEMENT\" ]; then printf 'last words'; kill -9 $$; fi; "
                          "echo replacement $ZERO_REPLACEMENT of $ZERO_MAX_REPLACEMENTS; : > back"));
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(server.status, 0) << server.errors;
  EXPECT_EQ(worker.status, 0) << worker.errors;
  EXPECT_EQ(lines(worker.output), (std::multiset<std::string>{"last words", "replacement 1 of 2"}));
  EXPECT_CONTAINS(worker.errors, "rank 1 failed with signal 9 (SIGKILL): restarting only this rank (1 of 2, 1 left)\n");
  EXPECT_CONTAINS(server.errors,
                  "rank 1 on machine 1 failed with signal 9 (SIGKILL): restarting only this rank (1 of 2");
  EXPECT_EQ(occurrences(kAgainAll, server.errors + worker.errors), 0);
}

TEST_F(Machines, FailedReplacementNamesItsRunRank) {
  if (built::kSanitized) GTEST_SKIP() << "UndefinedBehaviorSanitizer wants a descriptor to look at an object";
  Launched first(machine(0, 1, await("seen") + "echo done"));
  Launched second(machine(1, 1, kPrintLauncher + await("go") + "kill -9 $$"));
  exhaust_launcher();
  make("go");
  EXPECT_TRUE(second.wait_for_error("zero launch: rank 1 could not be started again: "));
  make("seen");
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(server.status, 0) << server.errors;
  EXPECT_EQ(worker.status, 0) << worker.errors;
}

TEST_F(Machines, FailedStartNamesItsRunRank) {
  if (built::kSanitized) GTEST_SKIP() << "UndefinedBehaviorSanitizer wants a descriptor to look at an object";
  Launched first(machine(0, 1, "if [ $ZERO_GENERATION = 0 ]; then " + await("go") + "exit 5; fi; sleep 100"));
  Launched second(machine(1, 1, kPrintLauncher + std::string("sleep 100")));
  exhaust_launcher();
  make("go");
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(worker.status, 4) << worker.errors;
  EXPECT_EQ(server.status, 4) << server.errors;
  EXPECT_CONTAINS(worker.errors, "zero launch: rank 1 of 2 could not be started: ");
  EXPECT_CONTAINS(server.errors, "rank 1 of 2");
}

TEST_F(Machines, DeadServerRestartsAllRanks) {
  Launched first(machine(0, 2, "if [ $ZERO_GENERATION = 0 ]; then " + await("here") + "kill -9 $$; fi; echo again"));
  Launched second(machine(1, 2, "if [ $ZERO_GENERATION = 0 ]; then : > here; sleep 100; fi; echo again"));
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(server.status, 0) << server.errors;
  EXPECT_EQ(worker.status, 0) << worker.errors;
  EXPECT_EQ(server.output, "again\n");
  EXPECT_EQ(worker.output, "again\n");
  for (const std::string& errors : {server.errors, worker.errors}) {
    EXPECT_CONTAINS(errors, "rank 0 of 2 failed with signal 9 (SIGKILL)");
    EXPECT_CONTAINS(errors, "starting all ranks again (1 of 2)");
  }
}

// A worker that ends together with its server is not replaced.
TEST_F(Machines, NoReplacementAfterServerEnds) {
  LaunchOptions patient =
      machine(0, 2, "if [ $ZERO_GENERATION = 0 ]; then " + await("here") + ": > go; kill -9 $$; fi; echo again");
  patient.witness = milliseconds(20'000);  // even a slow machine notices the server's end first
  Launched first(patient);
  Launched second(
      machine(1, 2, "if [ $ZERO_GENERATION = 0 ]; then : > here; " + await("go") + "exit 3; fi; echo again"));
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(server.status, 0) << server.errors;
  EXPECT_EQ(worker.status, 0) << worker.errors;
  EXPECT_EQ(worker.output, "again\n");
  EXPECT_EQ(occurrences(kAgainAlone, server.errors + worker.errors), 0) << server.errors << worker.errors;
  EXPECT_CONTAINS(worker.errors, kAgainAll);
}

TEST_F(Machines, RestartsOfAllMachinesCountTogether) {
  Launched first(machine(0, 2,
                         "if [ $ZERO_GENERATION = 1 ]; then echo ${ZERO_MAX_REPLACEMENTS-none left}; exit; fi; " +
                             await("back") + "exit 5"));
  Launched second(machine(1, 2,
                          "if [ $ZERO_GENERATION = 1 ]; then echo ${ZERO_MAX_REPLACEMENTS-none left}; exit; fi; "
                          "if [ -z \"$ZERO_REPLACEMENT\" ]; then exit 7; fi; : > back; sleep 100"));
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(server.status, 0) << server.errors;
  EXPECT_EQ(worker.status, 0) << worker.errors;
  EXPECT_CONTAINS(worker.errors, "rank 1 failed with exit status 7: restarting only this rank (1 of 2, 1 left)");
  EXPECT_CONTAINS(worker.errors, "starting all ranks again (2 of 2)");
  EXPECT_EQ(server.output, "none left\n");
  EXPECT_EQ(worker.output, "none left\n");
}

TEST_F(Machines, OthersFinishWithoutRestarts) {
  Launched first(machine(0, 0, await("left") + "echo done"));
  Launched second(machine(1, 0, "kill -9 $$"));
  EXPECT_TRUE(second.wait_for_error("no rank is left on this machine: it waits for the end of the other machines"));
  make("left");
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(server.status, 0) << server.errors;
  EXPECT_EQ(worker.status, 0) << worker.errors;
  EXPECT_EQ(occurrences(kAgainAlone, server.errors + worker.errors), 0);
}

// The second machine refuses its configuration.
TEST_F(Machines, RefusedConfigurationEndsEveryMachine) {
  Launched first(machine(0, 2, "sleep 100"));
  Launched second(machine(1, 2, "echo 'zero train: a bad key' >&2; exit 2"));
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(worker.status, 2);
  EXPECT_EQ(server.status, 2);
  EXPECT_CONTAINS(worker.errors, "a bad key");
  EXPECT_CONTAINS(server.errors, "a bad key");
  EXPECT_CONTAINS(server.errors, "rank 1 of 2");
}

TEST_F(Machines, RefusingWorkerIsBlamedNotServer) {
  LaunchOptions patient = machine(0, 2, "echo $$ > server; : > here; " + await("refused") + "exit 3");
  patient.witness = milliseconds(20'000);  // waits only until the second machine reports
  Launched first(patient);
  Launched second(machine(
      1, 2, await("here") + ": > refused; while kill -0 $(cat server) 2>/dev/null; do sleep 0.01; done; exit 2"));
  EXPECT_EQ(second.finish().status, 2);
  const Outcome server = first.finish();
  EXPECT_EQ(server.status, 2) << server.errors;
  EXPECT_EQ(occurrences(kAgainAll, server.errors), 0) << server.errors;
}

// The server continues.
TEST_F(Machines, KilledSecondLauncherIsNamed) {
  Launched first(machine(0, 2, await("seen") + "echo done"));
  Launched second(machine(1, 2, "echo here; sleep 100"));
  ASSERT_TRUE(second.wait_for("here"));
  second.send(SIGKILL);
  EXPECT_EQ(second.finish().status, 128 + SIGKILL);
  EXPECT_TRUE(first.wait_for_error("machine 1: its launcher (at 127.0.0.1) is gone, and its ranks with it"));
  make("seen");
  const Outcome server = first.finish();
  EXPECT_EQ(server.status, 0) << server.errors;
  EXPECT_EQ(server.output, "done\n");
}

TEST_F(Machines, ReturnedLauncherJoinsNextAttempt) {
  const std::string worker = "if [ $ZERO_GENERATION = 0 ]; then echo here; sleep 100; fi; echo again";
  Launched first(machine(0, 2, "if [ $ZERO_GENERATION = 0 ]; then " + await("seen") + "exit 5; fi; echo again"));
  Launched second(machine(1, 2, worker));
  ASSERT_TRUE(second.wait_for("here"));
  second.send(SIGKILL);
  EXPECT_TRUE(first.wait_for_error("is gone"));
  Launched anew(machine(1, 2, worker));
  EXPECT_TRUE(anew.wait_for_error("the other launchers are in an attempt that began without this launcher"));
  make("seen");
  EXPECT_EQ(anew.finish().output, "again\n");
  EXPECT_EQ(first.finish().output, "again\n");
}

// The other launchers name it.
TEST_F(Machines, KilledFirstLauncherEndsTheOthers) {
  Launched first(machine(0, 0, "sleep 100"));
  Launched second(machine(1, 0, "echo here; sleep 100"));
  ASSERT_TRUE(second.wait_for("here"));
  first.send(SIGKILL);
  const Outcome worker = second.finish();
  EXPECT_EQ(worker.status, 3);
  EXPECT_CONTAINS(worker.errors, place_of_first() + " is gone");
}

TEST_F(Machines, ReturnedFirstLauncherRestartsAll) {
  const std::string begin = "if [ ! -e killed ]; then echo here; sleep 100; fi; ";
  const std::string server = begin + await("back") + "echo again";
  Launched first(machine(0, 1, server)), second(machine(1, 1, begin + ": > back; echo again"));
  ASSERT_TRUE(second.wait_for("here"));
  make("killed");
  first.send(SIGKILL);
  EXPECT_TRUE(second.wait_for_error("starting all ranks again (1 of 1)"));
  Launched anew(machine(0, 1, server));
  EXPECT_EQ(anew.finish().output, "again\n");
  const Outcome worker = second.finish();
  EXPECT_EQ(worker.status, 0) << worker.errors;
  EXPECT_CONTAINS(worker.output, "again\n");
}

constexpr const char* kDiesOnce =
    "if [ -z \"$ZERO_REPLACEMENT\" ]; then kill -9 $$; fi; echo replacement $ZERO_REPLACEMENT; : > back";

// Two machines have servers.
TEST_F(Machines, RestartsThirdMachinesWorkerOnly) {
  const std::string server = await("back") + "echo server";
  Launched first(of_three(0, 2, server)), second(of_three(1, 2, server)), third(of_three(2, 2, kDiesOnce));
  const Outcome worker = third.finish(), other = second.finish(), leader = first.finish();
  for (const Outcome& outcome : {worker, other, leader}) EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(worker.output, "replacement 1\n");
  EXPECT_CONTAINS(worker.errors, "rank 2 failed with signal 9 (SIGKILL): restarting only this rank (1 of 2, 1 left)\n");
  EXPECT_CONTAINS(leader.errors,
                  "rank 2 on machine 2 failed with signal 9 (SIGKILL): restarting only this rank (1 of 2");
  EXPECT_EQ(occurrences(kAgainAll, leader.errors + other.errors + worker.errors), 0);
}

TEST_F(Machines, RestartsWorkerBesideSecondMachinesServer) {
  const auto options = [&](int number) {
    LaunchOptions out =
        machine(number, 2, fmt::format("if [ $RANK -lt 3 ]; then {}exit; fi; {}", await("back"), kDiesOnce));
    out.ranks = 2;
    out.spared_from = 3;
    return out;
  };
  Launched first(options(0)), second(options(1));
  const Outcome worker = second.finish(), server = first.finish();
  EXPECT_EQ(server.status, 0) << server.errors;
  EXPECT_EQ(worker.status, 0) << worker.errors;
  EXPECT_CONTAINS(worker.errors, "rank 3 failed with signal 9 (SIGKILL): restarting only this rank (1 of 2, 1 left)\n");
  EXPECT_EQ(occurrences(kAgainAll, server.errors + worker.errors), 0);
}

TEST_F(Machines, DeadSecondServerRestartsAllRanks) {
  const std::string again = "if [ $ZERO_GENERATION = 1 ]; then echo again; exit; fi; ";
  Launched first(of_three(0, 2, again + "sleep 100"));
  Launched second(of_three(1, 2, again + await("here") + "kill -9 $$"));
  Launched third(of_three(2, 2, again + ": > here; sleep 100"));
  const Outcome worker = third.finish(), dead = second.finish(), leader = first.finish();
  for (const Outcome& outcome : {worker, dead, leader}) {
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "again\n");
    EXPECT_CONTAINS(outcome.errors, "rank 1 of 3 failed with signal 9 (SIGKILL)");
    EXPECT_CONTAINS(outcome.errors, "starting all ranks again (1 of 2)");
  }
}

// A worker that ends together with a server of another machine is not replaced on its own.
TEST_F(Machines, NoReplacementIfRemoteServerEnds) {
  const std::string again = "if [ $ZERO_GENERATION = 1 ]; then echo again; exit; fi; ";
  Launched first(of_three(0, 2, again + "sleep 100"));
  LaunchOptions patient = of_three(1, 2, again + await("here") + ": > go; kill -9 $$");
  patient.witness = milliseconds(20'000);  // even a slow machine notices the server's end in time
  Launched second(patient);
  Launched third(of_three(2, 2, again + ": > here; " + await("go") + "exit 3"));
  const Outcome worker = third.finish(), dead = second.finish(), leader = first.finish();
  std::string errors;
  for (const Outcome& outcome : {worker, dead, leader}) {
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.output, "again\n");
    errors += outcome.errors;
  }
  EXPECT_EQ(occurrences(kAgainAlone, errors), 0) << errors;
}

// The errors name the killed launcher.
TEST_F(Machines, KilledServerLauncherRestartsAll) {
  const std::string again = "if [ $ZERO_GENERATION = 1 ]; then " + await("back") + "echo again; exit; fi; ";
  const std::string server = "if [ -e killed ]; then : > back; echo again; exit; fi; echo here; sleep 100";
  Launched first(of_three(0, 1, again + "sleep 100")), second(of_three(1, 1, server));
  Launched third(of_three(2, 1, again + "echo here; sleep 100"));
  ASSERT_TRUE(second.wait_for("here") && third.wait_for("here"));
  second.send(SIGKILL);
  EXPECT_TRUE(third.wait_for_error("starting all ranks again (1 of 1)"));
  make("killed");
  Launched anew(of_three(1, 1, server));
  const Outcome worker = third.finish(), back = anew.finish(), leader = first.finish();
  for (const Outcome& outcome : {worker, back, leader}) {
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_CONTAINS(outcome.output, "again\n");
  }
  EXPECT_CONTAINS(leader.errors, "machine 1: its launcher (at 127.0.0.1) is gone, and its ranks with it");
}

TEST_F(Machines, SilentServerLauncherIsNamed) {
  LaunchOptions impatient = of_three(0, 0, "sleep 100");
  impatient.answer = milliseconds(1000);
  Launched first(impatient), second(of_three(1, 0, "echo here; sleep 100"));
  Launched third(of_three(2, 0, "echo here; " + await("stopped") + "exit 7"));
  ASSERT_TRUE(second.wait_for("here") && third.wait_for("here"));
  second.send(SIGSTOP);
  make("stopped");
  const Outcome worker = third.finish(), leader = first.finish();
  EXPECT_EQ(leader.status, 3);
  EXPECT_EQ(worker.status, 3);
  EXPECT_CONTAINS(leader.errors, "machine 1: its launcher (at 127.0.0.1) did not answer within 0.5 s");
}

TEST_F(Machines, SilentFirstLauncherIsNamed) {
  Launched first(machine(0, 0, "echo here; sleep 100"));
  LaunchOptions impatient = machine(1, 0, "echo here; " + await("stopped") + "exit 7");
  impatient.answer = milliseconds(1000);
  Launched second(impatient);
  ASSERT_TRUE(first.wait_for("here") && second.wait_for("here"));
  first.send(SIGSTOP);
  make("stopped");
  const Outcome worker = second.finish();
  EXPECT_EQ(worker.status, 3);
  EXPECT_CONTAINS(worker.errors, place_of_first() + " did not answer within 1 s");
}

TEST_F(Machines, LonelyLauncherNamesMissingPeer) {
  LaunchOptions alone = machine(1, 0, "echo here");
  alone.patience = milliseconds(1);
  const Outcome outcome = run_launch(alone);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.output, "") << "no rank has begun";
  EXPECT_CONTAINS(outcome.errors, "machine 0: no answer of its launcher at 127.0.0.1:");
  EXPECT_CONTAINS(outcome.errors, "Connection refused");
}

TEST_F(Machines, MissingTokenIsReported) {
  Launched first(machine(0, 0, await("seen")));
  const EnvironmentVariable other("ZERO_TOKEN", "another token of the tests");
  LaunchOptions stranger = machine(1, 0, "echo here");
  stranger.patience = milliseconds(1000);
  const Outcome outcome = run_launch(stranger);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.output, "");
  EXPECT_CONTAINS(outcome.errors, "set the same ZERO_TOKEN on every machine");
  make("seen");
  EXPECT_CONTAINS(first.finish().errors, "a launcher at 127.0.0.1 was refused: it does not have this run's token");
}

// A second launcher with a taken number is refused.
TEST_F(Machines, RefusesOtherOptionsAndTakenNumbers) {
  Launched first(machine(0, 0, await("seen")));
  const Outcome other = run_launch(machine(1, 5, "echo here"));
  EXPECT_EQ(other.output, "");
  EXPECT_CONTAINS(other.errors, "--spared-from 1 --max-restarts 0, this one with --nnodes 2");
  Launched second(machine(1, 0, "echo here; " + await("seen")));
  ASSERT_TRUE(second.wait_for("here"));
  const Outcome twice = run_launch(machine(1, 0, "echo here"));
  EXPECT_EQ(twice.output, "");
  EXPECT_CONTAINS(twice.errors, "the launcher at 127.0.0.1 is machine 1 already");
  make("seen");
  EXPECT_EQ(second.finish().status, 0);
  EXPECT_EQ(first.finish().status, 0);
}

TEST_F(Machines, RefusesTakenPortAfterMasters) {
  Launched first(machine(0, 0, "echo here; " + await("seen")));
  ASSERT_TRUE(first.wait_for("here"));
  const Outcome outcome = run_launch(machine(0, 0, "echo here"));
  EXPECT_EQ(outcome.output, "");
  EXPECT_CONTAINS(outcome.errors, "with --spared-from the launchers meet at the next port");
  make("seen");
  EXPECT_EQ(first.finish().status, 0);
}

}  // namespace
}  // namespace zero
