// Training with four ranks on two or four hosts, over Gloo under `zero launch` and over MPI under mpirun. The bits
// equal those of the same training on one host. The hosts are network namespaces of this machine, and tc slows down the
// network between them.
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parity/process_report.h"
#include "tests/support/command_end.h"
#include "tests/support/hosts.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr int kWorld = 4, kMbits = 50;

struct Spread {
  const char* transport;
  int hosts;
  const char* mode = "";  // mode of training; empty: sums of every gradient over all ranks
  const char* flags = "";
  int world = kWorld;
  int ranks_of_each() const { return world / hosts; }
};

class HostsBits : public testing::TestWithParam<Spread> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(GetParam().transport); !why.empty()) GTEST_SKIP() << why;
    if (!hosts_.are_there()) GTEST_SKIP() << hosts_.why_not();
    if (const CommandEnd slow = hosts_.slow_down(kMbits); slow.status != 0)
      GTEST_SKIP() << "tc cannot slow a network down here: " << slow.text;
    folder_.write("c.toml", small_gpt());
  }
  void TearDown() override {
    if (!HasFailure()) return;
    for (int host = 0; host < GetParam().hosts; ++host)
      std::cerr << "host " << host << ":\n" << folder_.read(log(host));
  }

  static std::string log(int host) { return fmt::format("host-{}", host); }
  // Runs a command on a host, in the folder that all hosts share.
  int status_of(int host, const std::string& command) const {
    return end_of_command(
               fmt::format("cd '{}' && export ZERO_TOKEN='a token of the tests' XDG_CACHE_HOME=\"$PWD/.cache\" && "
                           "exec {} timeout 200 {} >{} 2>&1",
                           folder_.path().string(), hosts_.on(host), command, log(host)))
        .status;
  }
  std::string launcher(int host) const {
    return fmt::format(
        "'{0}' launch --nnodes {1} --node-rank {2} --master-addr {3} -n {4} --backend gloo -- '{0}' train c.toml {5}",
        built::kCommand, GetParam().hosts, host, Hosts::address(0), GetParam().ranks_of_each(), GetParam().flags);
  }
  std::string mpirun_line() const {
    return fmt::format("{} {} '{}' train c.toml {}", mpirun(), hosts_.mpirun_flags(GetParam().ranks_of_each()),
                       built::kCommand, GetParam().flags);
  }

  // The report, or no object if the run failed, which fails the test.
  Json report_of_all_hosts() const {
    std::vector<int> statuses(static_cast<std::size_t>(GetParam().hosts), 0);
    if (GetParam().transport == std::string("mpi")) {
      statuses[0] = status_of(0, mpirun_line());
    } else {
      std::vector<std::jthread> launchers;
      for (int host = 0; host < GetParam().hosts; ++host)
        launchers.emplace_back(
            [&, host] { statuses[static_cast<std::size_t>(host)] = status_of(host, launcher(host)); });
    }
    for (const int status : statuses) EXPECT_EQ(status, 0);
    return Json::parse(folder_.read("run/report.json"), nullptr, /*allow_exceptions=*/false);
  }

  const Hosts hosts_{GetParam().hosts};
  const Folder folder_;
};

// Bytes that the ranks of a host send to other hosts in a step, by the ranks' own count.
std::int64_t crossing(const Json& report, const Spread& spread, int host) {
  const Json& of_ranks =
      report.contains("copies") ? report.at("copies").at("sent_bytes_per_step") : report.at("sent_bytes_per_step");
  std::int64_t bytes = 0;
  for (int rank = 0; rank < spread.ranks_of_each(); ++rank)
    bytes += of_ranks.at(static_cast<std::size_t>(host * spread.ranks_of_each() + rank)).get<std::int64_t>();
  return bytes;
}

TEST_P(HostsBits, AreThoseOfOneHost) {
  const Json one = process_report(kWorld, "shared_memory", GetParam().flags), several = report_of_all_hosts();
  ASSERT_TRUE(one.is_object() && several.is_object());
  EXPECT_EQ(several.at("world"), one.at("world"));
  EXPECT_EQ(several.at("transport"), GetParam().transport);
  EXPECT_EQ(several.at("loss_bits"), one.at("loss_bits"));
  EXPECT_EQ(several.at("grad_norms"), one.at("grad_norms"));
  EXPECT_EQ(several.at("parameters_sha256"), one.at("parameters_sha256"));

  if (*GetParam().mode != 0) return;

  // The ranks of each host hold one copy of the model together (zero.group = "auto").
  const int copies = several.contains("copies") ? several.at("copies").at("number").get<int>() : 1;
  EXPECT_EQ(copies, GetParam().ranks_of_each() == 1 ? 1 : GetParam().hosts);
  EXPECT_FALSE(one.contains("copies"));

  const auto steps = static_cast<std::int64_t>(several.at("loss_bits").size());
  for (int host = 0; host < GetParam().hosts; ++host) {
    const std::int64_t counted = steps * crossing(several, GetParam(), host);
    EXPECT_GT(counted, 0);
    EXPECT_GE(hosts_.sent_bytes(host), counted) << "host " << host << " sent bytes over another network";
    EXPECT_GT(hosts_.held_back(host), 0) << "host " << host << " had an undelayed network";
  }
}

// An asynchronous run with one rank on each host, and as many threads as a host has. A replay on one host, over shared
// memory, takes the recorded threads, although two ranks share the host.
class HostsReplay : public HostsBits {};

TEST_P(HostsReplay, TakesThreadsOfBothLaunchers) {
  const Json recorded = report_of_all_hosts();
  ASSERT_TRUE(recorded.is_object());
  EXPECT_EQ(recorded.at("transport"), "gloo");
  const Ran ran = folder_.zero(fmt::format("train c.toml -n 2 --run.dir replayed --replay run {}", GetParam().flags),
                               "timeout 200");
  ASSERT_EQ(ran.status, 0) << ran.errors << ran.output;
  const Json replayed = Json::parse(folder_.read("replayed/report.json"), nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(replayed.is_object());
  EXPECT_EQ(replayed.at("transport"), "shared_memory");
  EXPECT_EQ(replayed.at("threads"), recorded.at("threads"));
  EXPECT_EQ(replayed.at("parameters_sha256"), recorded.at("parameters_sha256"));
  EXPECT_EQ(folder_.read("replayed/pushes.log"), folder_.read("run/pushes.log"));
}

// Each transport and each number of hosts once. The full tier has all pairs, and other modes of training.
std::vector<Spread> spreads() {
  std::vector<Spread> spreads{{"gloo", 4}, {"mpi", 2}};
  if (!in_full_tier()) return spreads;
  spreads.insert(spreads.end(), {{"gloo", 2}, {"mpi", 4}});
  constexpr const char* kStale = "--sync.mode stale --sync.staleness 1";
  constexpr const char* kLocal = "--zero.group 2 --sync.mode local --sync.local_steps 2";
  for (const char* const transport : {"gloo", "mpi"})
    spreads.insert(spreads.end(), {{transport, 2, "_stale", kStale},
                                   {transport, 2, "_local", kLocal},
                                   {transport, 2, "_hash", "--zero.shards hash"},
                                   {transport, 4, "_int8", "--comm.reduce_wire int8"},
                                   {transport, 2, "_secondary", "--zero.secondary_group 2 --zero.device_memory min"}});
  return spreads;
}

INSTANTIATE_TEST_SUITE_P(Of, HostsBits, testing::ValuesIn(spreads()), [](const auto& tested) {
  return fmt::format("{}Hosts_{}{}", tested.param.hosts, tested.param.transport, tested.param.mode);
});

INSTANTIATE_TEST_SUITE_P(
    Of, HostsReplay,
    testing::Values(Spread{
        .transport = "gloo", .hosts = 2, .flags = "--sync.mode async --train.batch 8 --run.threads 0", .world = 2}));

}  // namespace
}  // namespace zero
