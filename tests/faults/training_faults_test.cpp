// `zero train` whose ranks are killed and stopped while libtorch loads, while they meet, and while they train.
#include <filesystem>

#include <fmt/format.h>

#include "tests/faults/train_fault_test.h"
#include "tests/support/mpirun.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
constexpr int kWorld = 2;
constexpr milliseconds kStartUp{1500};
const std::string kFirstLine = "step 10/";

class TrainingFaults : public TrainFaultTest {
 protected:
  // The run has many more steps than a test lasts.
  std::vector<std::string> train(const std::vector<std::string>& flags) {
    return TrainFaultTest::train(fmt::format("run-{}", ++num_runs_), flags,
                                 {{"train.steps", "100000"},
                                  {"train.eval_every", "0"},
                                  {"checkpoint.every", "0"},  // else a stop request saves: see resume_faults_test.cpp
                                  {"zero.stage", "3"}});
  }

  static int num_rounds() { return in_full_tier() ? 5 : 2; }

  // The folder of flight records of the latest run.
  std::filesystem::path flight() const { return folder_ / fmt::format("run-{}", num_runs_) / "flight"; }
  std::filesystem::path rank_file(int rank) const { return flight() / fmt::format("rank-{:05}.json", rank); }

 private:
  int num_runs_ = 0;
};

// The rank is killed at any moment.
TEST_F(TrainingFaults, KilledRankIsNamedEndsAll) {
  for (int round = 0; round < num_rounds() && !HasFailure(); ++round) {
    const int victim = any_rank(kWorld);
    SCOPED_TRACE(fmt::format("round {}, rank {}", round, victim));
    WatchedCommand command(train({"-n", "2"}));
    const auto killed = kill_early(command, victim, kStartUp);
    EXPECT_TRUE(command.gone_before(killed + kAllGone)) << command.text();
    EXPECT_EQ(command.finish(), 3);
    EXPECT_SAYS(command, fmt::format("rank {} of 2 failed with signal 9 (SIGKILL)", victim));
  }
}

// The error names the rank.
TEST_F(TrainingFaults, TimeoutRemovesAStoppedRank) {
  for (int victim = 0; victim < kWorld; ++victim) {
    WatchedCommand command(train({"-n", "2", "--comm.timeout", "6s"}));  // ranks of a slow machine also meet in 6 s
    ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
    const auto stopped = strike(command.wait_for_rank(victim), SIGSTOP);
    EXPECT_TRUE(command.gone_before(stopped + std::chrono::seconds(6) + kAllGone)) << command.text();
    EXPECT_EQ(command.finish(), 3);
    EXPECT_SAYS(command, fmt::format("rank {}: ", victim));
    EXPECT_SAYS(command, "is stopped (SIGSTOP)");
  }
}

// Workers may be ahead of the hanging worker by the staleness, and then wait. The worker hangs for longer.
TEST_F(TrainingFaults, TimeoutNamesAHangingWorker) {
  WatchedCommand command(train(
      {"-n", "3", "--sync.mode", "async", "--sync.staleness", "2", "--comm.timeout", "6s", "--run.threads", "1"}));
  ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
  const auto stopped = strike(command.wait_for_rank(1), SIGSTOP);
  EXPECT_TRUE(command.gone_before(stopped + std::chrono::seconds(12) + kAllGone)) << command.text();
  EXPECT_EQ(command.finish(), 3);
  EXPECT_SAYS(command, "rank 1: ");
  EXPECT_SAYS(command, "is stopped (SIGSTOP)");
}

// Rank 0 is the head of the servers, and rank 1 the other server.
TEST_F(TrainingFaults, TimeoutNamesAStoppedServer) {
  Sweep sweep(2);
  for (const int victim : {1, 0}) {
    if (!sweep.takes_next()) continue;
    WatchedCommand command(train(
        {"-n", "4", "--sync.mode", "async", "--sync.servers", "2", "--comm.timeout", "6s", "--run.threads", "1"}));
    ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
    const auto stopped = strike(command.wait_for_rank(victim), SIGSTOP);
    EXPECT_TRUE(command.gone_before(stopped + std::chrono::seconds(14) + kAllGone)) << command.text();
    EXPECT_EQ(command.finish(), 3);
    EXPECT_SAYS(command, fmt::format("rank {}: ", victim));
    EXPECT_SAYS(command, "is stopped (SIGSTOP)");
  }
}

// The records of the other ranks name the stopped rank. The stopped rank itself may have no record.
TEST_F(TrainingFaults, FlightRecordsNameAStoppedRank) {
  constexpr int kThree = 3;
  Sweep sweep(kThree);
  for (int victim = 0; victim < kThree; ++victim) {
    if (!sweep.takes_next()) continue;
    WatchedCommand command(train({"-n", "3", "--comm.timeout", "6s"}));  // ranks of a slow machine also meet in 6 s
    ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
    strike(command.wait_for_rank(victim), SIGSTOP);
    EXPECT_EQ(command.finish(), 3);
    for (int rank = 0; rank < kThree; ++rank) {
      if (rank != victim) {
        EXPECT_TRUE(std::filesystem::exists(rank_file(rank))) << "rank " << rank << ": " << command.text();
      }
    }
    WatchedCommand doctor({built::kCommand, "doctor", "--flight", flight()});
    EXPECT_EQ(doctor.finish(), 0) << doctor.text();
    EXPECT_SAYS(doctor, "culprit: ");
    EXPECT_SAYS(doctor, fmt::format("         rank {}\n", victim));
  }
}

TEST_F(TrainingFaults, EnvironmentSetsTheFlightFolder) {
  const TemporaryFolder other;
  WatchedCommand command(train({"-n", "2"}), {{"ZERO_FLIGHT_DIR", other / "here"}});
  ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
  strike(command.wait_for_rank(1), SIGKILL);
  EXPECT_EQ(command.finish(), 3);
  EXPECT_TRUE(std::filesystem::exists(other / "here/rank-00000.json")) << command.text();
  EXPECT_FALSE(std::filesystem::exists(flight()));
}

TEST_F(TrainingFaults, TerminatedRunFinishesItsStep) {
  WatchedCommand command(train({"-n", "2"}));
  ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
  const auto asked = Clock::now();
  command.send(SIGTERM);
  EXPECT_TRUE(command.gone_before(asked + kAllGone)) << command.text();
  EXPECT_EQ(command.finish(), 128 + SIGTERM);
  EXPECT_SAYS(command, "stopped by signal 15 after step ");
  EXPECT_EQ(command.text().find("failed"), std::string::npos) << "no rank is to blame: " << command.text();
}

// The signal ends a rank that still loads libtorch. A rank that has loaded it keeps the signal until the end of a step.
// It must not wait for the other rank until comm.timeout.
TEST_F(TrainingFaults, TerminatedStartEndsEarly) {
  for (int round = 0; round < num_rounds() && !HasFailure(); ++round) {
    WatchedCommand command(train({"-n", "2"}));
    const pid_t last = command.wait_for_rank(kWorld - 1);
    std::this_thread::sleep_for(any_moment(kStartUp));
    EXPECT_EQ(kill(last, 0), 0) << "the rank exists before";
    const auto asked = Clock::now();
    command.send(SIGTERM);
    EXPECT_TRUE(command.gone_before(asked + kAllGone)) << command.text();
    EXPECT_EQ(command.finish(), 128 + SIGTERM);
  }
}

// The other rank names it.
TEST_F(TrainingFaults, MpirunNamesAKilledRank) {
  if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "no mpirun on this machine";
  for (int victim = 0; victim < kWorld; ++victim) {
    std::vector<std::string> program{ZERO_MPIRUN, "-n", "2"};
    const std::vector<std::string> rank = train({});
    program.insert(program.end(), rank.begin(), rank.end());
    WatchedCommand command(program, mpirun_variables());
    ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
    const auto killed = strike(command.wait_for_rank(victim), SIGKILL);
    EXPECT_TRUE(command.ranks_gone_before(killed + kAllGone)) << command.text();
    EXPECT_GT(command.finish(), 0);
    EXPECT_SAYS(command, fmt::format("rank {}: ", victim));
    EXPECT_SAYS(command, "its process ended");
    EXPECT_TRUE(command.gone_before(Clock::now() + kAllGone)) << "mpirun left a process";
  }
}

// The stopped rank may also be a worker beside a server. Over messages, no peer sees that the rank is stopped.
TEST_F(TrainingFaults, MpiTimeoutNamesAStoppedRank) {
  if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "no mpirun on this machine";
  Sweep sweep(2);
  for (const char* servers : {"0", "1"}) {
    if (!sweep.takes_next()) continue;
    SCOPED_TRACE(fmt::format("{} servers", servers));
    const std::vector<std::string> start{ZERO_MPIRUN, "-n", "3"};
    const std::vector<std::string> keys{"--comm.transport", "mpi", "--comm.timeout", "6s", "--sync.servers", servers};
    std::vector<std::string> program;
    for (const auto& part : {start, train({}), keys}) program.insert(program.end(), part.begin(), part.end());
    WatchedCommand command(program, mpirun_variables());
    ASSERT_TRUE(command.wait_for(kFirstLine)) << command.text();
    const pid_t stopped = command.wait_for_rank(2);
    strike(stopped, SIGSTOP);
    EXPECT_TRUE(command.wait_for("zero train: rank ")) << command.text();
    kill(stopped, SIGCONT);  // mpirun has removed it already, or can do so now
    EXPECT_GT(command.finish(), 0);
    const std::size_t named = command.text().find("zero train: rank ");
    EXPECT_EQ(command.text().find("zero train: rank 2: "), named) << command.text();
    EXPECT_NE(command.text().find(" 6000 ms", named), std::string::npos) << command.text();
    EXPECT_TRUE(command.gone_before(Clock::now() + kAllGone)) << "mpirun left a process";
  }
}

}  // namespace
}  // namespace zero
