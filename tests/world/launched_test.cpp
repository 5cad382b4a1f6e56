// Worlds whose ranks somebody else starts: mpirun, and two network namespaces that stand for two hosts. This program is
// then every rank's program; ZERO_WORLD_TRANSPORT tells it so.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include <unistd.h>

#include "suite.h"

#ifndef ZERO_MPIRUN
#define ZERO_MPIRUN ""
#endif

namespace zero {
namespace {

// What the ranks of a launched world run: everything on a grid, once per rank.
constexpr const char* kSuite = "--gtest_filter=Worlds/*";

struct Output {
  int status = -1;
  std::string text;
};

// Runs a shell command; its output is kept.
Output run(const std::string& command) {
  Output output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  char part[4096];
  for (std::size_t got = 0; (got = fread(part, 1, sizeof part, pipe)) > 0;) output.text.append(part, got);
  output.status = pclose(pipe);
  return output;
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

// That all ranks say they passed, and more than a handful of tests.
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

// Root, more ranks than cores, and libraries that leak by design.
constexpr const char* kMpiEnvironment =
    "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
    "OMPI_MCA_mpi_yield_when_idle=1 ASAN_OPTIONS=detect_leaks=0 ";

class Mpirun : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (!launched_transport().empty()) GTEST_SKIP() << "this is a rank";
    if (std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "no mpirun on this machine";
  }
  static Output launch(const std::string& transport, int world, const std::string& filter) {
    return run(fmt::format("{} ZERO_WORLD_TRANSPORT={} timeout 300 {} -n {} {} --gtest_brief=1 --gtest_color=no '{}'",
                           kMpiEnvironment, transport, ZERO_MPIRUN, world, self(), filter));
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, Mpirun, ::testing::Values(2, 3));

TEST_P(Mpirun, TheSuitePassesOverMpi) {
  if (!available("mpi")) GTEST_SKIP() << "the plug-in mpi is not there";
  const Output output = launch("mpi", GetParam(), kSuite);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(ran_the_suite(output.text, GetParam())) << output.text;
}

TEST_P(Mpirun, TheSuitePassesOverSharedMemory) {
  const Output output = launch("shared_memory", GetParam(), kSuite);
  EXPECT_EQ(output.status, 0) << output.text;
  EXPECT_TRUE(ran_the_suite(output.text, GetParam())) << output.text;
}

// A rank of it: two ranks that disagree. Each leaves what it was told in a file, since mpirun ends the other one as
// soon as the first is gone.
TEST(MpiRank, DisagreesWithItsPeer) {
  if (launched_transport() != "mpi") GTEST_SKIP() << "runs under Mpirun.AMismatchOverMpiNamesBothRanks";
  const auto ends = run_world({.transport = "mpi", .size = 2}, [](Communicator& comm) {
    std::vector<std::byte> in(100), out(200);
    if (comm.rank() == 0) {
      comm.all_gather(in, out, {.unit = 3}).wait();
    } else {
      comm.barrier({}).wait();
    }
  });
  std::ofstream(fmt::format("{}-{}", std::getenv("ZERO_WORLD_END"), std::getenv("OMPI_COMM_WORLD_RANK"))) << ends[0];
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

TEST_F(Mpirun, AMismatchOverMpiNamesBothRanks) {
  if (!available("mpi")) GTEST_SKIP() << "the plug-in mpi is not there";
  const std::string file = fmt::format("/tmp/zero-mismatch-{}", getpid());
  setenv("ZERO_WORLD_END", file.c_str(), 1);
  const Output output = launch("mpi", 2, "--gtest_filter=MpiRank.*");
  for (const int rank : {0, 1}) {
    const std::string path = fmt::format("{}-{}", file, rank);
    EXPECT_EQ(contents(path),
              "collective #1: ranks disagree: rank 0 does all_gather #1 (unit 3, 100 bytes), rank 1 does barrier #1")
        << output.text;
    unlink(path.c_str());
  }
}

// Two namespaces joined by a cable: each rank has its own loopback, address and abstract sockets.
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!launched_transport().empty()) GTEST_SKIP() << "this is a rank";
    if (!available("gloo")) GTEST_SKIP() << "the plug-in gloo is not there";
    const std::string id = std::to_string(getpid());
    hosts_[0] = "zero-a-" + id;
    hosts_[1] = "zero-b-" + id;
    const std::string cable = "za" + id, end = "zb" + id;
    const Output output = run(fmt::format(
        "set -e; ip netns add {0}; ip netns add {1}; ip link add {2} type veth peer name {3}; ip link set {2} netns "
        "{0}; "
        "ip link set {3} netns {1}; ip -n {0} addr add 10.77.0.1/24 dev {2}; ip -n {1} addr add 10.77.0.2/24 dev {3}; "
        "ip -n {0} link set {2} up; ip -n {1} link set {3} up; ip -n {0} link set lo up; ip -n {1} link set lo up",
        hosts_[0], hosts_[1], cable, end));
    if (output.status != 0) GTEST_SKIP() << "network namespaces are not to be had here: " << output.text;
  }
  void TearDown() override {
    for (const std::string& host : hosts_) {
      if (!host.empty()) run("ip netns del " + host);
    }
  }

  std::string rank_command(int rank, const std::string& more) const {
    return fmt::format(
        "ip netns exec {} env RANK={} WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=10.77.0.1 "
        "MASTER_PORT=29500 {} "
        "ZERO_WORLD_TRANSPORT=gloo timeout 300 {} --gtest_brief=1 --gtest_color=no '{}'",
        hosts_[rank], rank, more, self(), kSuite);
  }

  std::string hosts_[2];
};

TEST_F(TwoHosts, TheSuitePassesOverGloo) {
  const std::string log = fmt::format("/tmp/zero-two-hosts-{}", getpid());
  const Output output = run(fmt::format("{} > {} 2>&1 & {}; first=$?; wait $! && exit $first", rank_command(1, ""), log,
                                        rank_command(0, "")));
  const std::string other = contents(log);
  unlink(log.c_str());
  EXPECT_EQ(output.status, 0) << output.text << other;
  EXPECT_TRUE(ran_the_suite(output.text, 1) && ran_the_suite(other, 1)) << output.text << other;
}

TEST_F(TwoHosts, SharedMemoryIsRefusedWithARemedy) {
  try {
    open_transport("shared_memory", {.rank = 0, .world = 2, .local_world = 1, .run_id = "x"}, std::chrono::seconds(1));
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("use mpi or gloo across hosts"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace zero
