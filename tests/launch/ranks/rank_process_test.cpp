#include "app/launch/ranks/rank_process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "app/launch/ranks/cores.h"
#include "app/launch/ranks/orphan_guard.h"
#include "tests/launch/launched.h"

namespace zero {
namespace {

RankStart shell(const std::string& text) {
  RankStart start;
  start.program = {"/bin/sh", "-c", text};
  start.environment = {"PATH=/usr/bin:/bin", "GREETING=hello"};
  return start;
}

std::string read_all(int fd) {
  std::string out;
  eventually([&] {
    char bytes[256];
    const ssize_t got = read(fd, bytes, sizeof bytes);
    if (got > 0) out.append(bytes, static_cast<std::size_t>(got));
    return got == 0;
  });
  return out;
}

ProcessEnd wait_end(RankProcess& rank) {
  std::optional<ProcessEnd> end;
  EXPECT_TRUE(eventually([&] { return (end = rank.reap()).has_value(); }));
  return end.value_or(ProcessEnd{});
}

TEST(RankProcess, GivesItsOutputErrorsAndStatus) {
  auto rank = RankProcess::start(shell("echo $GREETING; echo no >&2; exit 5"));
  EXPECT_EQ(read_all(rank.output()), "hello\n");
  EXPECT_EQ(read_all(rank.errors()), "no\n");
  EXPECT_EQ(wait_end(rank).exit_code, 5);
  EXPECT_FALSE(rank.running());
}

TEST(RankProcess, ASignalIsNoExitStatus) {
  auto rank = RankProcess::start(shell("kill -SEGV $$"));
  EXPECT_EQ(wait_end(rank).signal, SIGSEGV);
}

TEST(RankProcess, UnrunnableProgramIsConfigError) {
  RankStart start = shell("");
  start.program = {"/no/such/program"};
  EXPECT_THROW(RankProcess::start(start), ConfigError);
  start.program = {"/etc/passwd"};
  EXPECT_THROW(RankProcess::start(start), ConfigError);
}

TEST(RankProcess, IsBoundToItsCores) {
  const int last = allowed_cores().back();
  RankStart start = shell("grep Cpus_allowed_list /proc/self/status");
  start.cores = {last};
  auto rank = RankProcess::start(start);
  EXPECT_EQ(read_all(rank.output()), "Cpus_allowed_list:\t" + std::to_string(last) + "\n");
  wait_end(rank);
}

TEST(RankProcess, HasNoInputOfTheLaunchers) {
  auto rank = RankProcess::start(shell("cat; echo end"));
  EXPECT_EQ(read_all(rank.output()), "end\n");
  wait_end(rank);
}

TEST(RankProcess, LeftoverProcessesEndWithIt) {
  auto rank = RankProcess::start(shell("sleep 100 & echo $!"));
  std::string text;
  EXPECT_TRUE(eventually([&] {
    char bytes[64];
    const ssize_t got = read(rank.output(), bytes, sizeof bytes);
    if (got > 0) text.append(bytes, static_cast<std::size_t>(got));
    return text.find('\n') != std::string::npos;
  }));
  const pid_t child = std::stoi(text);
  wait_end(rank);
  EXPECT_TRUE(eventually([&] { return !alive(child); }));
}

TEST(RankProcess, DestructionKillsRunningProcess) {
  pid_t pid = 0;
  {
    auto rank = RankProcess::start(shell("sleep 100"));
    pid = rank.pid();
    EXPECT_TRUE(alive(pid));
  }
  EXPECT_FALSE(alive(pid));
}

// Groups that the guard has forgotten continue.
TEST(OrphanGuard, KillsWatchedGroupsWithLauncher) {
  auto watched = RankProcess::start(shell("sleep 100"));
  auto forgotten = RankProcess::start(shell("sleep 100"));
  {
    OrphanGuard guard;
    guard.watch(watched.pid());
    guard.watch(forgotten.pid());
    guard.forget(forgotten.pid());
  }
  EXPECT_EQ(wait_end(watched).signal, SIGKILL);
  EXPECT_TRUE(alive(forgotten.pid()));
}

}  // namespace
}  // namespace zero
