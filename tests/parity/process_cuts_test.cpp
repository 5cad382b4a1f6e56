// Ranges by weight between processes, over every transport and at every stage: the bits of equal ranges, and the bytes that
// are planned. Blocks that differ in size go another way over messages than through shared memory.
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "zero/transport/open_transport.h"

#include "../cli/command.h"
#include "../mpirun.h"

namespace zero {
namespace {

using Json = nlohmann::json;
constexpr int kRanks = 3;

bool available(std::string_view transport) {
  const auto statuses = transport_statuses();
  return std::ranges::any_of(statuses,
                             [&](const auto& status) { return status.name == transport && status.available; });
}

// `keys` of the command line, over `transport`.
Json report_of(const std::string& transport, const std::string& keys) {
  const Folder folder;
  folder.write("c.toml", fmt::format(R"([model]
layers = 2
width = 48
heads = 2
context = 32
[data]
path = "{}/examples/shakespeare/input.txt"
validation = 0
[train]
steps = 4
batch = 1
clip = 1.0
[optimizer]
lr = 1e-2
[schedule]
warmup = 0
[run]
dir = "run"
threads = 1
)",
                                     built::kSourceFolder));
  const bool by_mpi = transport == "mpi";
  const Ran ran = folder.zero(fmt::format("train c.toml {} --comm.transport {} {}",
                                          by_mpi ? "" : fmt::format("-n {}", kRanks), transport, keys),
                              (by_mpi ? mpirun_ranks(kRanks) : "") + " timeout 200");
  EXPECT_EQ(ran.status, 0) << ran.errors << ran.output;
  return Json::parse(folder.read("run/report.json"), nullptr, /*allow_exceptions=*/false);
}

class WeightedProcesses : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, WeightedProcesses, testing::Values("shared_memory", "mpi", "gloo"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(WeightedProcesses, HaveTheBitsOfEqualRangesAndSendWhatIsPlanned) {
  const std::string transport = GetParam();
  if (!available(transport)) GTEST_SKIP() << "the plug-in " << transport << " is not there";
  if (transport == "mpi" && std::string(ZERO_MPIRUN).empty()) GTEST_SKIP() << "no mpirun on this machine";
  const Json ranges = report_of("shared_memory", "");
  ASSERT_TRUE(ranges.is_object());
  for (const char* keys : {"--zero.shard_weights [4,1,2]", "--zero.shard_weights [1,5,3] --zero.stage 1", ""}) {
    const Json weighted = report_of(transport, fmt::format("--zero.shards weighted {}", keys));
    ASSERT_TRUE(weighted.is_object()) << keys;
    EXPECT_EQ(weighted.at("transport"), transport);
    EXPECT_EQ(weighted.at("parameters_sha256"), ranges.at("parameters_sha256")) << keys;
    EXPECT_EQ(weighted.at("loss_bits"), ranges.at("loss_bits")) << keys;
    EXPECT_EQ(weighted.at("grad_norms"), ranges.at("grad_norms")) << keys;
    EXPECT_EQ(weighted.at("sent_bytes_per_step")[0], weighted.at("planned_sent_bytes")) << keys;
  }
}

}  // namespace
}  // namespace zero
