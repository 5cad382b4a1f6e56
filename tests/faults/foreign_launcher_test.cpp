// The same faults under mpirun and torchrun. These launchers end the ranks in their own time. The survivors must detect
// the death themselves and end. They outlive SIGTERM here, or the launcher might end them first.
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/faults/fault_test.h"
#include "tests/support/mpirun.h"
#include "tests/support/this_build.h"
#include "tests/support/torchrun_path.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
constexpr int kWorld = 3;
constexpr int kKills = 5;

struct ForeignLauncher {
  const char* name;
  std::vector<std::string> arguments;
  WatchedCommand::Variables environment;

  std::string program() const { return name == std::string("mpirun") ? ZERO_MPIRUN : torchrun_path(); }
};

std::ostream& operator<<(std::ostream& out, const ForeignLauncher& launcher) {
  return out << launcher.name;
}

const ForeignLauncher kMpirun{
    .name = "mpirun", .arguments = {"-n", std::to_string(kWorld)}, .environment = mpirun_variables()};
const ForeignLauncher kTorchrun{
    .name = "torchrun",
    .arguments = {"--standalone", "--no-python", "--nproc-per-node", std::to_string(kWorld)},
    .environment = {{"OMP_NUM_THREADS", "1"}}};

class ForeignFaults : public FaultTest, public testing::WithParamInterface<ForeignLauncher> {
 protected:
  void SetUp() override {
    if (GetParam().program().empty()) GTEST_SKIP() << "no " << GetParam().name << " on this machine";
  }
  static WatchedCommand start(const std::vector<std::string>& flags) {
    std::vector<std::string> program{GetParam().program()};
    for (const auto& arguments : {GetParam().arguments, {built::kFaultWorker}, flags}) {
      program.insert(program.end(), arguments.begin(), arguments.end());
    }
    return WatchedCommand(program, GetParam().environment);
  }
  static bool all_work(WatchedCommand& command) {
    for (int rank = 0; rank < kWorld; ++rank) {
      if (!command.wait_for(fmt::format("rank {} works", rank))) return false;
    }
    return true;
  }
};
INSTANTIATE_TEST_SUITE_P(By, ForeignFaults, testing::Values(kMpirun, kTorchrun),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ForeignFaults, OthersNameAKilledRank) {
  for (int round = 0; round < kKills; ++round) {
    const int victim = any_rank(kWorld);
    SCOPED_TRACE(fmt::format("round {}, rank {}", round, victim));
    WatchedCommand command = start({"--outlive-sigterm"});
    ASSERT_TRUE(all_work(command)) << command.text();
    const auto killed = strike(command.wait_for_rank(victim), SIGKILL);
    EXPECT_TRUE(command.ranks_gone_before(killed + kAllGone)) << command.text();
    EXPECT_GT(command.finish(), 0);
    EXPECT_SAYS(command, fmt::format("rank {}: ", victim));
    EXPECT_SAYS(command, "its process ended");
    EXPECT_TRUE(command.gone_before(Clock::now() + kAllGone)) << "the launcher left a process";
  }
}

TEST_P(ForeignFaults, TimeoutNamesAStoppedRank) {
  WatchedCommand command = start({"--timeout", "3000"});  // ranks of a slow machine also meet within this time
  ASSERT_TRUE(all_work(command)) << command.text();
  const pid_t stopped = command.wait_for_rank(1);
  strike(stopped, SIGSTOP);
  EXPECT_TRUE(command.wait_for("is stopped (SIGSTOP)")) << command.text();
  EXPECT_SAYS(command, "rank 1: ");
  EXPECT_SAYS(command, "it is absent after 3 s");
  kill(stopped, SIGCONT);  // mpirun has removed it already; torchrun waits half a minute
  EXPECT_GT(command.finish(), 0);
  EXPECT_TRUE(command.gone_before(Clock::now() + kAllGone)) << "the launcher left a process";
}

}  // namespace
}  // namespace zero
