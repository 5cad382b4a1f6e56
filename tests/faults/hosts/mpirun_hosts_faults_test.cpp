// `zero train` under mpirun on two hosts. When a rank is killed, mpirun ends all ranks and names the lost one, and no
// process is left on either host. The hosts are network namespaces. ZERO_MPIRUN_KILLS sets the number of kills per
// mode.
#include <sstream>

#include <fmt/format.h>

#include "tests/faults/hosts/hosts_fault_test.h"
#include "tests/support/mpirun.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

struct MpirunMode {
  const char* name;
  std::vector<std::string> keys;
};

void PrintTo(const MpirunMode& mode, std::ostream* out) {
  *out << mode.name;
}

class MpirunHostsFaults : public HostsFaultTest, public testing::WithParamInterface<MpirunMode> {
 protected:
  static constexpr int kRanksOfEach = 2;

  void SetUp() override {
    if (!ZERO_CAN_TRAIN) GTEST_SKIP() << "this build has no libtorch";
    if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "no mpirun on this machine";
    make_hosts(2);
  }

  // The run has many more steps than the test lasts.
  std::vector<std::string> training(const std::string& run) const {
    std::vector<std::string> words = hosts_->words_on(0);
    words.emplace_back(ZERO_MPIRUN);
    // Ranks of the other host also get the variable by which WatchedCommand finds its processes.
    std::istringstream flags(hosts_->mpirun_flags(kRanksOfEach) + " -x ZERO_FAULT_TEST");
    for (std::string flag; flags >> flag;) words.push_back(flag);
    const std::vector<std::string> program = train(run, {},
                                                   {{"data.validation", "0"},
                                                    {"train.steps", "100000"},
                                                    {"train.log_every", "1"},
                                                    {"checkpoint.every", "5"},
                                                    {"comm.transport", "mpi"},
                                                    {"run.threads", "1"}},
                                                   GetParam().keys);
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }

  // Whether no process is left that mpirun started on the host: its daemon and the ranks.
  bool is_empty(int host) const {
    const auto deadline = Clock::now() + kAllGone;
    while (!hosts_->processes(host).empty() && Clock::now() < deadline) std::this_thread::sleep_for(milliseconds(20));
    return hosts_->processes(host).empty();
  }
};
INSTANTIATE_TEST_SUITE_P(In, MpirunHostsFaults,
                         testing::Values(MpirunMode{"sync", {}},
                                         MpirunMode{"async", {"--sync.mode", "async", "--sync.staleness", "2"}},
                                         MpirunMode{"quorum", {"--sync.servers", "1", "--sync.quorum", "2"}}),
                         [](const auto& tested) { return std::string(tested.param.name); });

// mpirun names the rank, and no process is left. In modes with servers, rank 0 is the server and all others are
// workers.
TEST_P(MpirunHostsFaults, KilledRankEndsTheRunCleanly) {
  constexpr int kVictims[] = {3, 0, 2, 1};
  constexpr int kFirstEarly = 4;  // rounds before this one kill a rank that has trained
  const int kills = num_trials("ZERO_MPIRUN_KILLS", 2, 6);
  for (int round = 0; round < kills && !HasFailure(); ++round) {
    const int victim = kVictims[round % 4];
    SCOPED_TRACE(fmt::format("round {}, rank {}", round, victim));
    const std::string run = fmt::format("run-{}", round);
    WatchedCommand command(training(run), mpirun_variables());
    if (round < kFirstEarly) {
      ASSERT_TRUE(command.wait_for("step 10/")) << command.text();
      strike(command.wait_for_rank(victim), SIGKILL);
    } else {
      kill_early(command, victim, milliseconds(2500));
    }
    EXPECT_GT(command.finish(), 0);
    // If a rank dies while ranks still start, mpirun may only say that a process ended.
    if (round < kFirstEarly || command.text().find("1 process returned") == std::string::npos) {
      EXPECT_SAYS(command, fmt::format("process rank {} with PID", victim)) << "mpirun names it";
    }
    expect_nothing_left(command);
    for (int host = 0; host < hosts_->count(); ++host) EXPECT_TRUE(is_empty(host)) << "host " << host;
  }
}

}  // namespace
}  // namespace zero
