// Ranks of a torch-free program under `zero launch` are killed, stopped or out of step, and their launcher is killed.
#include <fmt/format.h>

#include "tests/faults/fault_test.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
constexpr int kWorld = 3;
constexpr const char* kWorkerTimeout = "3000";  // milliseconds; ranks of a slow machine also meet in it
constexpr milliseconds kStartUp{80};            // of a rank, until well after it met the others

std::vector<std::string> worker(const std::vector<std::string>& flags = {}) {
  std::vector<std::string> program{built::kCommand,        "launch", "--nproc-per-node",
                                   std::to_string(kWorld), "--",     built::kFaultWorker};
  program.insert(program.end(), flags.begin(), flags.end());
  return program;
}

bool all_work(WatchedCommand& command) {
  for (int rank = 0; rank < kWorld; ++rank) {
    if (!command.wait_for(fmt::format("rank {} works", rank))) return false;
  }
  return true;
}

class WorkerFaults : public FaultTest {};

// A rank is killed at any moment.
TEST_F(WorkerFaults, KilledRankIsNamedEndsAll) {
  const int num_kills = num_trials("ZERO_WORKER_KILLS", 5, built::kSanitized ? 20 : 40);
  for (int round = 0; round < num_kills && !HasFailure(); ++round) {
    const int victim = any_rank(kWorld);
    SCOPED_TRACE(fmt::format("round {}, rank {}", round, victim));
    WatchedCommand command(worker());
    // In some rounds the ranks surely work, however slow the machine is.
    if (round % 4 == 3) {
      EXPECT_TRUE(command.wait_for(fmt::format("rank {} works", victim))) << command.text();
    }
    const auto killed = kill_early(command, victim, kStartUp);
    EXPECT_TRUE(command.gone_before(killed + kAllGone)) << command.text();
    EXPECT_EQ(command.finish(), 3);
    EXPECT_SAYS(command, fmt::format("rank {} of {} failed with signal 9 (SIGKILL)", victim, kWorld));
  }
}

// The error names the rank.
TEST_F(WorkerFaults, TimeoutRemovesAStoppedRank) {
  for (int victim = 0; victim < kWorld; ++victim) {
    WatchedCommand command(worker({"--timeout", kWorkerTimeout}));
    ASSERT_TRUE(all_work(command)) << command.text();
    const auto stopped = strike(command.wait_for_rank(victim), SIGSTOP);
    EXPECT_TRUE(command.gone_before(stopped + milliseconds(3000) + kAllGone)) << command.text();
    EXPECT_EQ(command.finish(), 3);
    EXPECT_SAYS(command, fmt::format("rank {}: ", victim));
    EXPECT_SAYS(command, "it is absent after 3 s");
    EXPECT_SAYS(command, "is stopped (SIGSTOP)");
  }
}

TEST_F(WorkerFaults, MismatchedCollectiveNamesBothRanks) {
  for (int rank = 0; rank < kWorld; ++rank) {
    WatchedCommand command(worker({"--mismatch", std::to_string(rank)}));
    EXPECT_EQ(command.finish(), 3);
    EXPECT_TRUE(command.gone_before(Clock::now())) << "all ranks ended before the launcher";
    EXPECT_SAYS(command, "ranks disagree: rank ");
    EXPECT_SAYS(command, fmt::format("rank {} does barrier #41", rank));
    EXPECT_SAYS(command, "does all_gather #41 (unit 1, ");
  }
}

TEST_F(WorkerFaults, DeathAfterRestartIsFound) {
  std::vector<std::string> program = worker();
  program.insert(program.begin() + 2, {"--max-restarts", "1"});
  WatchedCommand command(program);
  ASSERT_TRUE(all_work(command)) << command.text();
  strike(command.wait_for_rank(0), SIGKILL);
  ASSERT_TRUE(command.wait_for("starting all ranks again (1 of 1)")) << command.text();
  const auto killed = kill_early(command, 2, kStartUp);
  EXPECT_TRUE(command.gone_before(killed + kAllGone)) << command.text();
  EXPECT_EQ(command.finish(), 3);
  EXPECT_SAYS(command, "rank 0 of 3 failed with signal 9");
  EXPECT_SAYS(command, "rank 2 of 3 failed with signal 9");
}

// The hanging rank is named although only the other ranks report.
TEST_F(WorkerFaults, RepeatedlyHangingRankIsGivenUp) {
  std::vector<std::string> program = worker({"--timeout", kWorkerTimeout});
  program.insert(program.begin() + 2, {"--max-restarts", "3", "--min-ranks", "2"});
  WatchedCommand command(program);
  ASSERT_TRUE(all_work(command)) << command.text();
  strike(command.wait_for_rank(1), SIGSTOP);
  ASSERT_TRUE(command.wait_for("starting all ranks again (1 of 3)")) << command.text();
  strike(command.wait_for_rank(1), SIGSTOP);
  ASSERT_TRUE(command.wait_for("continuing with 2 of 3 ranks (2 of 3): rank 1 failed twice in a row"))
      << command.text();
  command.wait_for_rank(1);
  command.send(SIGTERM);
  EXPECT_EQ(command.finish(), 128 + SIGTERM) << command.text();
}

TEST_F(WorkerFaults, AKilledLauncherLeavesNobody) {
  for (int round = 0; round < 5; ++round) {
    WatchedCommand command(worker());
    const pid_t first = command.wait_for_rank(0);
    if (round == 0) {
      EXPECT_TRUE(all_work(command)) << command.text();
    } else {
      std::this_thread::sleep_for(any_moment(kStartUp));  // some ranks may not have started yet
    }
    EXPECT_EQ(kill(first, 0), 0) << "the rank exists before";
    const auto killed = Clock::now();
    command.send(SIGKILL);
    EXPECT_TRUE(command.gone_before(killed + kAllGone));
    EXPECT_EQ(command.finish(), 128 + SIGKILL);
  }
}

TEST_F(WorkerFaults, AnInterruptedLauncherEndsAll) {
  for (const int signal : {SIGINT, SIGTERM}) {
    WatchedCommand command(worker());
    ASSERT_TRUE(all_work(command)) << command.text();
    const auto asked = Clock::now();
    command.send(signal);
    EXPECT_TRUE(command.gone_before(asked + kAllGone)) << command.text();
    EXPECT_EQ(command.finish(), 128 + signal);
    EXPECT_EQ(command.text().find("failed"), std::string::npos) << "no rank is to blame: " << command.text();
  }
}

}  // namespace
}  // namespace zero
