#include "zero/comm/transport/open_transport.h"

#include <algorithm>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/transport/world.h"

#include "tests/comm/rendezvous/fake_tcp_store.h"
#include "tests/support/environment_variable.h"
#include "tests/support/message_of.h"
#include "tests/support/this_build.h"
#include "tests/support/unclaimed_port.h"

namespace zero {
namespace {

using std::chrono::seconds;

TEST(Plugin, UnknownTransportErrorListsNames) {
  try {
    open_transport("carrier_pigeon", {}, seconds(1));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.key(), "comm.transport");
    for (const char* part : {"carrier_pigeon", "shared_memory", "mpi", "gloo", "nccl"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(WorldOptions, TimeoutIsAboveZero) {
  for (const std::chrono::milliseconds timeout : {seconds(0), seconds(-1)}) {
    const std::string refusal = message_of<ConfigError>([&] { World::in_process(1, {.timeout = timeout}); });
    EXPECT_TRUE(says(refusal, "comm.timeout = "));
    EXPECT_TRUE(says(refusal, "above 0\n  use for example 60 s"));
    EXPECT_EQ(refusal, message_of<ConfigError>([&] { World::from_environment({.timeout = timeout}); }));
  }
}

TEST(Plugin, NcclIsNoHostTransport) {
  const std::string refusal = message_of<ConfigError>([] { open_transport("nccl", {}, seconds(1)); });
  EXPECT_TRUE(says(refusal, "comm.transport = nccl: it moves bytes only between GPUs"));
  EXPECT_TRUE(says(refusal, "use shared_memory, mpi or gloo"));
}

TEST(Plugin, MpiRestartsNoSingleRank) {
  const std::string refusal =
      message_of<ConfigError>([] { open_transport("mpi", {.world = 2, .most_replacements = 1}, seconds(1)); });
  EXPECT_TRUE(
      says(refusal, "comm.transport = mpi: over this transport a rank that restarts by itself cannot join a run"));
}

TEST(Plugin, TableListsEveryTransportWithReason) {
  const auto statuses = transport_statuses();
  std::vector<std::string> names;
  for (const TransportStatus& status : statuses) {
    names.push_back(status.name);
    EXPECT_FALSE(status.why.empty()) << status.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"shared_memory", "mpi", "gloo", "nccl"}));
  EXPECT_TRUE(statuses[0].available);
}

TEST(Plugin, OneProcessUsesTheEmbeddedTransport) {
  EXPECT_EQ(open_transport("auto", {}, seconds(1))->transport(), "shared_memory");
  EXPECT_EQ(open_transport("shared_memory", {}, seconds(1))->world(), 1);
}

// Its status says so.
TEST(Plugin, GlooIsSkippedUnderAddressSanitizer) {
  const auto statuses = transport_statuses();
  const auto gloo = std::ranges::find(statuses, "gloo", &TransportStatus::name);
  if (built::kSanitized) {
    EXPECT_FALSE(gloo->available);
  }
  EXPECT_EQ(gloo->why.find("AddressSanitizer") != std::string::npos, built::kSanitized);
}

bool gloo_is_there() {
  const auto statuses = transport_statuses();
  return std::ranges::find(statuses, "gloo", &TransportStatus::name)->available;
}

// The token is checked before anything listens.
TEST(Plugin, GlooHostsNeedToken) {
  if (!gloo_is_there()) GTEST_SKIP() << "the plug-in gloo is not there";
  const Listener taken;  // rank 0 would notice the taken port
  const RankEnvironment ranks{.world = 2, .master_port = taken.port(), .run_id = "x"};
  const auto message = message_of<ConfigError>([&] { open_transport("gloo", ranks, seconds(1)); });
  EXPECT_TRUE(says(message, "openssl rand -hex 32"));
  const EnvironmentVariable token("ZERO_TOKEN", "a token of the tests");
  EXPECT_TRUE(says(message_of<ConfigError>([&] { open_transport("gloo", ranks, seconds(1)); }), "set MASTER_PORT"));
}

// The error of a rank that meets the others over gloo and waits for them once; "" for none.
std::string meet_over_gloo(const RankEnvironment& ranks) try {
  open_transport("gloo", ranks, seconds(60))->barrier({}).wait();
  return "";
} catch (const std::exception& error) {
  return error.what();
}

// The launcher gives each start its own name: "5f", "5f-1". A rank of an earlier start gets an error, and the others
// meet without it.
TEST(Plugin, GlooRefusesEarlierGenerationsRank) {
  if (!gloo_is_there()) GTEST_SKIP() << "the plug-in gloo is not there";
  const int port = unclaimed_port();
  const auto rank_of = [port](int rank, const char* run, int generation) {
    return RankEnvironment{.rank = rank,
                           .world = 2,
                           .local_rank = rank,
                           .local_world = 2,
                           .master_port = port,
                           .run_id = run,
                           .generation = generation};
  };
  std::string zero = "not run", one = "not run";
  {
    std::jthread host([&] { zero = meet_over_gloo(rank_of(0, "5f-1", 1)); });
    EXPECT_TRUE(says(meet_over_gloo(rank_of(1, "5f", 0)), "another run ('5f-1') meets at 127.0.0.1"));
    one = meet_over_gloo(rank_of(1, "5f-1", 1));
  }
  EXPECT_EQ(zero, "");
  EXPECT_EQ(one, "");
}

// /etc/hosts often gives a host's own name a loopback address. Rank 0 notices that by itself, long before the timeout.
TEST(Plugin, GlooHostsRefuseLoopbackAddress) {
  if (!gloo_is_there()) GTEST_SKIP() << "the plug-in gloo is not there";
  const int port = unclaimed_port();
  const EnvironmentVariable token("ZERO_TOKEN", "a token of the tests");
  try {
    open_transport("gloo", {.world = 2, .master_port = port, .run_id = "x"}, std::chrono::hours(1));
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 reaches rank 0 from 127.0.0.1"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("set ZERO_COMM_INTERFACE"), std::string::npos) << error.what();
  }
}

TEST(Plugin, GlooUnderTorchrunNeedsTorchrunsStore) {
  if (!gloo_is_there()) GTEST_SKIP() << "the plug-in gloo is not there";
  RankEnvironment ranks{.world = 2, .local_world = 2, .master_port = unclaimed_port()};
  ranks.agent_run = "none";
  EXPECT_THROW(open_transport("gloo", ranks, std::chrono::hours(1)), CommError);
  // A single rank meets nobody.
  ranks.world = ranks.local_world = 1;
  EXPECT_EQ(open_transport("gloo", ranks, seconds(10))->world(), 1);
}

}  // namespace
}  // namespace zero
