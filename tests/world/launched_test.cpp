// Launched worlds: mpirun, torchrun or zero launch starts the ranks, also on two hosts, which are network namespaces.
// This program is then the program of every rank. The variable ZERO_WORLD_TRANSPORT selects that.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include <unistd.h>

#include "tests/comm/rendezvous/fake_tcp_store.h"
#include "tests/support/command_end.h"
#include "tests/support/environment_variable.h"
#include "tests/support/hosts.h"
#include "tests/support/mpirun.h"
#include "tests/support/this_build.h"
#include "tests/support/torchrun_path.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

// The tests that each rank of a launched world runs: all tests on a grid.
constexpr const char* kSuite = "--gtest_filter=Worlds/*";

using Output = CommandEnd;

Output run(const std::string& command) {
  return end_of_command(command + " 2>&1");
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string self() {
  char path[4096] = {};
  return std::string(path, std::max<ssize_t>(0, readlink("/proc/self/exe", path, sizeof path - 1)));
}

// Whether every rank reports more than 15 passed tests.
bool ran_the_suite(const std::string& text, int ranks) {
  int passed = 0;
  for (std::size_t at = 0; (at = text.find("[  PASSED  ] ", at)) != std::string::npos; ++at) {
    passed += std::atoi(text.c_str() + at + 13) > 15;
  }
  return passed == ranks;
}

bool available(const std::string& name) {
  for (const TransportStatus& status : transport_statuses()) {
    if (status.name == name) return status.available;
  }
  return false;
}

class Mpirun : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!launched_transport().empty()) GTEST_SKIP() << "this is a rank";
    if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "no mpirun on this machine";
  }
  static Output launch(const std::string& transport, int world, const std::string& filter) {
    return run(fmt::format("ZERO_WORLD_TRANSPORT={} timeout 300 {} {} --gtest_brief=1 --gtest_color=no '{}'", transport,
                           mpirun_ranks(world), self(), filter));
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Mpirun, ::testing::Values(2, 3));

TEST_P(Mpirun, TheSuitePassesOverMpi) {
  if (!available("mpi")) GTEST_SKIP() << "the plug-in mpi is missing";
  const Output output = launch("mpi", GetParam(), kSuite);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(ran_the_suite(output.text, GetParam())) << output.text;
}

TEST_P(Mpirun, TheSuitePassesOverSharedMemory) {
  const Output output = launch("shared_memory", GetParam(), kSuite);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(ran_the_suite(output.text, GetParam())) << output.text;
}

// The file into which a rank of the next test writes its error.
std::string end_file(int rank) {
  return fmt::format("{}-{}", std::getenv("ZERO_WORLD_END"), rank);
}

// A rank of that test, which disagrees with its peer. It stays until its peer has also written its error, because
// mpirun ends the peer as soon as this rank ends.
TEST(MpiRank, DisagreesWithItsPeer) {
  if (launched_transport() != "mpi") GTEST_SKIP() << "runs under Mpirun.MpiMismatchNamesBothRanks";
  const auto ends = run_world({.transport = "mpi", .size = 2}, [](Communicator& comm) {
    std::vector<std::byte> in(100), out(200);
    if (comm.rank() == 0) {
      comm.all_gather(in, out, {.unit = 3}).wait();
    } else {
      comm.barrier({}).wait();
    }
  });
  const int rank = std::atoi(std::getenv("OMPI_COMM_WORLD_RANK"));
  std::ofstream(end_file(rank)) << ends[0];
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (contents(end_file(1 - rank)).empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_F(Mpirun, MpiMismatchNamesBothRanks) {
  if (!available("mpi")) GTEST_SKIP() << "the plug-in mpi is missing";
  const EnvironmentVariable told("ZERO_WORLD_END", fmt::format("/tmp/zero-mismatch-{}", getpid()));
  const Output output = launch("mpi", 2, "--gtest_filter=MpiRank.*");
  for (const int rank : {0, 1}) {
    const std::string end = contents(end_file(rank));
    EXPECT_EQ(end.substr(0, end.find('\n')),
              "collective #1: ranks disagree: rank 0 does all_gather #1 (unit 3, 100 bytes), rank 1 does barrier #1")
        << output.text;
    unlink(end_file(rank).c_str());
  }
}

class Torchrun : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!launched_transport().empty()) GTEST_SKIP() << "this is a rank";
    if (torchrun_path().empty()) GTEST_SKIP() << "no torchrun in PATH or ZERO_TORCHRUN";
    if (!available(GetParam())) GTEST_SKIP() << "the transport " << GetParam() << " is not there";
  }
  // Without --standalone, every run has the name "none" and the given port.
  static std::string command(const std::string& transport, const std::string& flags, const std::string& filter) {
    return fmt::format(
        "env OMP_NUM_THREADS=1 ZERO_WORLD_TRANSPORT={} timeout 300 '{}' --no-python --nproc-per-node 2 {} {} "
        "--gtest_brief=1 --gtest_color=no '{}'",
        transport, torchrun_path(), flags, self(), filter);
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Torchrun, ::testing::Values("shared_memory", "gloo"),
                         [](const auto& info) { return info.param; });

// Two different ports without a listener.
std::array<int, 2> two_free_ports() {
  const Listener a, b;
  return {a.port(), b.port()};
}

// Runs both commands at the same time. Element 0 is the first command's output.
std::array<Output, 2> run_both(const std::string& first, const std::string& second) {
  std::array<Output, 2> outputs;
  {
    const std::jthread other([&] { outputs[1] = run(second); });
    outputs[0] = run(first);
  }
  return outputs;
}

// The runs share one host.
TEST_P(Torchrun, TwoRunsPassSuiteTogether) {
  const auto [port, other_port] = two_free_ports();
  for (const Output& output : run_both(command(GetParam(), fmt::format("--master-port {}", port), kSuite),
                                       command(GetParam(), fmt::format("--master-port {}", other_port), kSuite))) {
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(ran_the_suite(output.text, 2)) << output.text;
  }
}

// A rank of the next test. In the first round, rank 1 ends after it has met rank 0.
TEST(TorchrunRank, EndsInItsFirstRound) {
  if (std::getenv("ZERO_WORLD_ROUNDS") == nullptr) GTEST_SKIP() << "runs under Torchrun.RanksMeetAgainAfterARestart";
  expect_world({.transport = launched_transport(), .size = 2}, [](Communicator& comm) {
    comm.barrier({}).wait();
    if (std::string(std::getenv("TORCHELASTIC_RESTART_COUNT")) == "0" && comm.rank() == 1) _exit(7);
    comm.barrier({}).wait();
  });
}

// torchrun's store still has the entries of the first round.
TEST_P(Torchrun, RanksMeetAgainAfterARestart) {
  const Output output = run("env ZERO_WORLD_ROUNDS=2 " +
                            command(GetParam(), "--standalone --max-restarts 1", "--gtest_filter=TorchrunRank.*"));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_NE(output.text.find("failed (exitcode: "), std::string::npos) << output.text;  // in the first round
}

// Ranks as torchrun starts them. The store still has the address of an earlier rank 0, but no process listens there.
TEST(AgentStore, DetectsOldAnnouncement) {
  if (!launched_transport().empty()) GTEST_SKIP() << "this is a rank";
  if (!available("gloo")) GTEST_SKIP() << "the plug-in gloo is missing";
  FakeTcpStore store;
  store.put("/zero/none/rank 0", fmt::format("127.0.0.1 {} gone", two_free_ports()[0]));
  const auto rank = [&](int rank) {
    return fmt::format(
        "env RANK={0} WORLD_SIZE=2 LOCAL_RANK={0} LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT={1} "
        "TORCHELASTIC_RUN_ID=none TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT={0} "
        "ZERO_WORLD_TRANSPORT=gloo timeout 300 {2} --gtest_brief=1 --gtest_color=no '{3}'",
        rank, store.port(), self(), kSuite);
  };
  std::array<Output, 2> outputs;
  {
    const std::jthread rank_1([&] { outputs[1] = run(rank(1)); });
    EXPECT_TRUE(store.wait_for("get /zero/none/rank 0"));  // rank 1 has read the old entry
    outputs[0] = run(rank(0));
  }
  for (const Output& output : outputs) {
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(ran_the_suite(output.text, 1)) << output.text;
  }
}

class OverTwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!launched_transport().empty()) GTEST_SKIP() << "this is a rank";
    if (!available("gloo")) GTEST_SKIP() << "the plug-in gloo is missing";
    hosts_.emplace(2);
    if (!hosts_->are_there()) GTEST_SKIP() << hosts_->why_not();
  }

  std::string rank_command(int rank, const std::string& more) const {
    return fmt::format(
        "{} env RANK={} WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500 "
        "ZERO_TOKEN='a token of the tests' {} "
        "ZERO_WORLD_TRANSPORT=gloo timeout 300 {} --gtest_brief=1 --gtest_color=no '{}'",
        hosts_->on(rank), rank, more, self(), kSuite);
  }

  std::optional<Hosts> hosts_;
};

TEST_F(OverTwoHosts, TheSuitePassesOverGloo) {
  const std::string log = fmt::format("/tmp/zero-two-hosts-{}", getpid());
  const Output output = run(fmt::format("{} > {} 2>&1 & {}; first=$?; wait $! && exit $first", rank_command(1, ""), log,
                                        rank_command(0, "")));
  const std::string other = contents(log);
  unlink(log.c_str());
  EXPECT_EQ(output.status, 0) << output.text << other;
  EXPECT_TRUE(ran_the_suite(output.text, 1) && ran_the_suite(other, 1)) << output.text << other;
}

TEST_F(OverTwoHosts, WithoutATokenNothingListens) {
  const Output output = run(rank_command(0, "ZERO_TOKEN="));
  EXPECT_NE(output.status, 0);
  EXPECT_NE(output.text.find("ZERO_TOKEN: is not set"), std::string::npos) << output.text;
  EXPECT_NE(output.text.find("openssl rand -hex 32"), std::string::npos) << output.text;
}

// Rank 0 refuses the other token, and waits for the right one.
TEST_F(OverTwoHosts, RefusesOtherTokenAndWaits) {
  const std::string log = fmt::format("/tmp/zero-two-hosts-{}", getpid());
  const Output output =
      run(fmt::format("{} > {} 2>&1 & {}; {}; first=$?; wait $! && exit $first", rank_command(0, "ZERO_LOG_LEVEL=warn"),
                      log, rank_command(1, "ZERO_TOKEN='the token of another job'"), rank_command(1, "")));
  const std::string rank_0 = contents(log);
  unlink(log.c_str());
  EXPECT_EQ(output.status, 0) << output.text << rank_0;
  EXPECT_NE(output.text.find("do not have the same token"), std::string::npos) << output.text;
  EXPECT_TRUE(ran_the_suite(output.text, 1) && ran_the_suite(rank_0, 1)) << output.text << rank_0;
  EXPECT_NE(rank_0.find("a connection from 10.77.0.2 was refused: it does not have this run's token"),
            std::string::npos)
      << rank_0;
}

TEST_F(OverTwoHosts, SuitePassesOverGlooUnderTorchrun) {
  if (torchrun_path().empty()) GTEST_SKIP() << "no torchrun in PATH or ZERO_TORCHRUN";
  const auto agent = [&](int node) {
    return fmt::format(
        "{} env OMP_NUM_THREADS=1 ZERO_WORLD_TRANSPORT=gloo timeout 300 '{}' --no-python --nnodes 2 "
        "--node-rank {} --nproc-per-node 1 --master-addr 10.77.0.1 --master-port 29500 {} --gtest_brief=1 "
        "--gtest_color=no '{}'",
        hosts_->on(node), torchrun_path(), node, self(), kSuite);
  };
  for (const Output& output : run_both(agent(0), agent(1))) {
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_TRUE(ran_the_suite(output.text, 1)) << output.text;
  }
}

// As in the guide, no launcher gets the run's name.
TEST_F(OverTwoHosts, LaunchedRanksMeetOverGloo) {
  if (!std::filesystem::exists(built::kCommand)) GTEST_SKIP() << "this build has no command";
  const auto launcher = [&](int node) {
    return fmt::format(
        "{} env ZERO_TOKEN='a token of the tests' ZERO_WORLD_TRANSPORT=gloo timeout 300 '{}' launch "
        "--nnodes 2 --node-rank {} --nproc-per-node 1 --master-addr 10.77.0.1 -- {} --gtest_color=no "
        "'--gtest_filter=Worlds/Reductions.*'",
        hosts_->on(node), built::kCommand, node, self());
  };
  for (const Output& output : run_both(launcher(0), launcher(1))) {
    EXPECT_EQ(output.status, 0) << output.text;
    EXPECT_NE(output.text.find("[  PASSED  ] "), std::string::npos) << output.text;
  }
}

TEST_F(OverTwoHosts, RefusesSharedMemoryWithRemedy) {
  try {
    open_transport("shared_memory", {.rank = 0, .world = 2, .local_world = 1, .run_id = "x"}, std::chrono::seconds(1));
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("use mpi or gloo across machines"), std::string::npos) << error.what();
  }
}

class MpirunOverTwoHosts : public Mpirun {};

// Lower bound of the bytes that a host's rank sends to the other host in the suite. One block of the largest size is
// more.
constexpr std::int64_t kLeastOfTheSuite = 300000;

// Open MPI's daemon on the second host starts the rank there. A script in place of ssh starts the daemon.
TEST_F(MpirunOverTwoHosts, TheSuitePassesOverMpi) {
  if (!available("mpi")) GTEST_SKIP() << "the plug-in mpi is missing";
  const Hosts hosts(2);
  if (!hosts.are_there()) GTEST_SKIP() << hosts.why_not();
  const Output output =
      run(fmt::format("{} env ZERO_WORLD_TRANSPORT=mpi timeout 300 {} {} {} -x ZERO_WORLD_TRANSPORT {} --gtest_brief=1 "
                      "--gtest_color=no '{}'",
                      hosts.on(0), mpirun(), hosts.mpirun_flags(1), mpirun_hands_on(), self(), kSuite));
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(ran_the_suite(output.text, 2)) << output.text;
  EXPECT_GT(hosts.sent_bytes(0), kLeastOfTheSuite) << "the ranks' messages took another way";
  EXPECT_GT(hosts.sent_bytes(1), kLeastOfTheSuite) << "the ranks' messages took another way";
}

}  // namespace
}  // namespace zero
