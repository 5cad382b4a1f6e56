#include "app/cli/launch_flags.h"

#include <cstdlib>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "app/launch/ranks/cores.h"
#include "tests/support/environment_variable.h"
#include "tests/support/message_of.h"

namespace zero::cli {
namespace {

using Words = std::vector<std::string>;

LaunchOptions parse(const Words& words) {
  return parse_launch(words).value();
}

TEST(LaunchFlags, DefaultIsOneRankOneMachine) {
  const LaunchOptions options = parse({"./train", "config.toml"});
  EXPECT_EQ(options.program, (Words{"./train", "config.toml"}));
  EXPECT_EQ(options.ranks, 1);
  EXPECT_EQ(options.nodes, 1);
  EXPECT_EQ(options.master_address, "127.0.0.1");
  EXPECT_EQ(options.master_port, 0) << "a free port is found at the start";
  EXPECT_EQ(options.max_restarts, 0);
  EXPECT_TRUE(options.bind_cores);
  EXPECT_TRUE(options.shown_ranks.empty());
}

TEST(LaunchFlags, TheBackendIsATransport) {
  EXPECT_EQ(parse({"-n", "2", "--backend", "gloo", "x"}).variables.front().second, "gloo");
  EXPECT_TRUE(says(message_of<ConfigError>([] { parse({"--backend", "pigeon", "x"}); }), "allowed: auto, in_process"));
}

// The port is torchrun's, unless the user gives another.
TEST(LaunchFlags, SeveralMachinesUseTorchrunsPort) {
  EXPECT_EQ(parse({"--nnodes", "2", "--node-rank", "1", "--master-addr", "h", "x"}).master_port, 29500);
  const LaunchOptions options = parse({"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", "host0:29400", "x"});
  EXPECT_EQ(options.master_address, "host0");
  EXPECT_EQ(options.master_port, 29400);
  EXPECT_EQ(options.node_rank, 1);
}

TEST(LaunchFlags, EndpointsMayBeIpv6) {
  const auto master = [](const std::string& endpoint) {
    const LaunchOptions options = parse({"--nnodes", "2", "--node-rank", "1", "--rdzv-endpoint", endpoint, "x"});
    return std::pair(options.master_address, options.master_port);
  };
  EXPECT_EQ(master("::1"), std::pair(std::string("::1"), 29500));
  EXPECT_EQ(master("[fd00::2]:29400"), std::pair(std::string("fd00::2"), 29400));
  EXPECT_EQ(master("[fd00::2]"), std::pair(std::string("fd00::2"), 29500));
  EXPECT_EQ(master("host0"), std::pair(std::string("host0"), 29500));
  for (const char* bad : {"[::1", "[::1]29400", "[::1]:x", "host0:"}) EXPECT_THROW(master(bad), ConfigError) << bad;
}

TEST(LaunchFlags, OtherTorchrunFlagsNameRemedies) {
  const Words flags{"--log-dir", "--log_dir", "--redirects", "-r"};
  for (const std::string& flag : flags)
    EXPECT_TRUE(says(message_of<ConfigError>([&] { parse({flag, "logs", "x"}); }), ">log 2>&1")) << flag;
  EXPECT_TRUE(says(message_of<ConfigError>([] { parse({"--local-addr", "10.0.0.1", "x"}); }), "ZERO_COMM_INTERFACE"));
  EXPECT_EQ(parse({"-t", "3", "--monitor-interval", "5", "--start-method", "spawn", "x"}).program, Words{"x"});
  const EnvironmentVariable variable("PET_LOG_DIR", "logs");
  EXPECT_TRUE(says(message_of<ConfigError>([] { parse({"x"}); }), "--log-dir = logs"));
}

TEST(LaunchFlags, ElasticRangeOfOneIsFixed) {
  EXPECT_EQ(parse({"--nnodes", "1:1", "x"}).nodes, 1);
  EXPECT_TRUE(says(message_of<ConfigError>([] { parse({"--nnodes", "1:2", "x"}); }), "changes its size"));
}

TEST(LaunchFlags, StandaloneOverridesOtherMachines) {
  const LaunchOptions options = parse({"--standalone", "--nnodes", "4", "--rdzv-endpoint", "elsewhere:1", "x"});
  EXPECT_EQ(options.nodes, 1);
  EXPECT_EQ(options.master_address, "127.0.0.1");
}

TEST(LaunchFlags, RankFilterListsLocalRanks) {
  EXPECT_EQ(parse({"--nproc-per-node", "4", "--local-ranks-filter", "0,3", "x"}).shown_ranks, (std::vector{0, 3}));
  EXPECT_THROW(parse({"--nproc-per-node", "4", "--local-ranks-filter", "4", "x"}), ConfigError);
  EXPECT_THROW(parse({"--nproc-per-node", "4", "--local-ranks-filter", "0,,1", "x"}), ConfigError);
}

TEST(LaunchFlags, AutoCountsOwnCores) {
  EXPECT_EQ(parse({"--nproc-per-node", "auto", "x"}).ranks, static_cast<int>(allowed_cores().size()));
}

TEST(LaunchFlags, EveryTorchrunFlagHasItsVariable) {
  const EnvironmentVariable ranks("PET_NPROC_PER_NODE", "3");
  const EnvironmentVariable nodes("PET_NNODES", "2");
  const EnvironmentVariable place("PET_NODE_RANK", "1");
  const EnvironmentVariable address("PET_MASTER_ADDR", "host0");
  const EnvironmentVariable port("PET_MASTER_PORT", "777");
  const EnvironmentVariable restarts("PET_MAX_RESTARTS", "5");
  const EnvironmentVariable id("PET_RDZV_ID", "job7");
  const EnvironmentVariable filter("PET_LOCAL_RANKS_FILTER", "1");
  const EnvironmentVariable role("PET_ROLE", "trainer");
  const LaunchOptions options = parse({"x"});
  EXPECT_EQ(options.ranks, 3);
  EXPECT_EQ(options.nodes, 2);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.master_address, "host0");
  EXPECT_EQ(options.master_port, 777);
  EXPECT_EQ(options.max_restarts, 5);
  EXPECT_EQ(options.min_ranks, 0);
  EXPECT_EQ(options.run_name, "job7");
  EXPECT_EQ(options.shown_ranks, (std::vector{1}));
  EXPECT_EQ(options.role, "trainer");
  EXPECT_EQ(parse({"--max-restarts", "0", "x"}).max_restarts, 0) << "a flag beats its variable";
}

TEST(LaunchFlags, FewerRanksNeedOneMachine) {
  EXPECT_EQ(parse({"-n", "4", "--max-restarts", "1", "--min-ranks", "3", "x"}).min_ranks, 3);
  const EnvironmentVariable variable("PET_MIN_RANKS", "2");
  EXPECT_EQ(parse({"-n", "4", "--max-restarts", "1", "x"}).min_ranks, 2);
}

TEST(LaunchFlags, LastRanksMayFail) {
  EXPECT_EQ(parse({"-n", "4", "x"}).spared_from, -1);
  EXPECT_EQ(parse({"-n", "4", "--spared-from", "3", "x"}).spared_from, 3);
  EXPECT_EQ(parse({"--nnodes", "2", "-n", "2", "--node-rank", "1", "--master-addr", "h", "--spared-from", "2", "x"})
                .spared_from,
            2);
  EXPECT_EQ(parse({"--nnodes", "3", "-n", "1", "--node-rank", "1", "--master-addr", "h", "--spared-from", "2", "x"})
                .spared_from,
            2)
      << "ranks of two machines, and none may fail";
}

TEST(LaunchFlags, ScriptsGoToPythonByDefault) {
  EXPECT_EQ(parse({"train.py", "--lr", "1"}).program, (Words{"python3", "-u", "train.py", "--lr", "1"}));
  EXPECT_EQ(parse({"--no-python", "train.py"}).program, (Words{"train.py"}));
  EXPECT_EQ(parse({"-m", "pkg.train", "-v"}).program, (Words{"python3", "-u", "-m", "pkg.train", "-v"}));
}

TEST(LaunchFlags, OnlyTheFirstDashesAreOurs) {
  EXPECT_EQ(parse({"--", "x", "--", "-h"}).program, (Words{"x", "--", "-h"}));
}

TEST(LaunchFlags, HelpNeedsNoProgram) {
  testing::internal::CaptureStdout();
  EXPECT_FALSE(parse_launch(Words{"--help"}).has_value());
  EXPECT_TRUE(says(testing::internal::GetCapturedStdout(), "zero launch [flags] [--] PROGRAM [arguments]"));
}

}  // namespace
}  // namespace zero::cli
