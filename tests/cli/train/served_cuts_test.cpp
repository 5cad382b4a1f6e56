// `--sync.servers` with `--zero.shards`: servers that own hashed blocks, whole parameters or weighted ranges. They
// train the same bits as with equal ranges, and continue other runs. The plan lists each server's share, the bytes that
// cross and the bytes that move.
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/training_test.h"
#include "tests/support/message_of.h"
#include "tests/support/one_line.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class ServedCutRuns : public TrainingTest {
 protected:
  ServedCutRuns()
      : TrainingTest(small_gpt(at_one_rate("steps = 6\nbatch = 1\nclip = 0.25\neval_every = 0\n"), "validation = 0\n",
                               /*width=*/64)) {}
};

// The bits equal those of equal ranges.
TEST_F(ServedCutRuns, AnotherCutContinuesWithSameBits) {
  const Json ranges = report_of("-n 2", "ranges");
  ASSERT_TRUE(ranges.is_object());
  for (const Json& norm : ranges.at("grad_norms")) EXPECT_GT(norm, 0.25) << "the test must clip";
  const std::string served = "-n 4 --sync.servers 2 --checkpoint.every 2 ";
  ASSERT_TRUE(report_of(served + "--zero.shards hash --train.steps 2", "cut").is_object());
  ASSERT_TRUE(report_of(served + "--zero.shards weighted --train.steps 4", "cut").is_object()) << "as measured";
  const Json rest = report_of("-n 5 --sync.servers 3 --zero.shards whole --checkpoint.every 2", "cut");
  ASSERT_TRUE(rest.is_object());
  EXPECT_EQ(rest.at("loss_bits"), ranges.at("loss_bits"));
  EXPECT_EQ(rest.at("parameters_sha256"), ranges.at("parameters_sha256"));
  EXPECT_EQ(rest.at("grad_norms"), ranges.at("grad_norms"));
}

// A checkpoint's older weights are stored by cut. A stale run with another cut continues with the newest weights, and
// says so.
TEST_F(ServedCutRuns, OlderWeightsNeedTheirCut) {
  const std::string stale = "-n 4 --sync.mode stale --sync.servers 2 --sync.staleness 2 --checkpoint.every 3 ";
  const std::string weighted = "--zero.shards weighted --zero.shard_weights ";
  const Json whole = report_of(stale + weighted + "[1,3]", "whole");
  ASSERT_TRUE(report_of(stale + weighted + "[1,3] --train.steps 3", "half").is_object());
  std::filesystem::copy(folder_.path() / "half", folder_.path() / "other", std::filesystem::copy_options::recursive);
  EXPECT_EQ(report_of(stale + weighted + "[1,3]", "half").at("parameters_sha256"), whole.at("parameters_sha256"));
  const Ran other =
      folder_.zero("train c.toml --run.dir other " + stale + weighted + "[3,1]", "ZERO_LOG_LEVEL=warn timeout 250");
  EXPECT_EQ(other.status, 0) << other.errors;
  EXPECT_TRUE(says(one_line(other.errors + other.output), "this checkpoint has no older weights for these servers"))
      << other.errors;
}

TEST_F(ServedCutRuns, PlanShowsServerAndMovedBytes) {
  const auto planned = [&](const std::string& shards) {
    const Ran ran = folder_.zero("plan c.toml --world 5 --sync.servers 3 --json --zero.shards " + shards);
    EXPECT_EQ(ran.status, 0) << ran.errors;
    return Json::parse(ran.output, nullptr, /*allow_exceptions=*/false);
  };
  const Json ranges = planned("range"), hashed = planned("hash");
  ASSERT_TRUE(ranges.is_object() && hashed.is_object());
  for (const char* bytes : {"pushed_bytes", "pulled_bytes", "worker_state_bytes"})
    EXPECT_EQ(hashed.at("served").at(bytes), ranges.at("served").at(bytes)) << bytes;
  EXPECT_EQ(ranges.at("served").at("worker_block_bytes"), 0);
  EXPECT_GT(hashed.at("served").at("worker_block_bytes"), 0);
  EXPECT_GT(hashed.at("shards").at("moved_by_joining"), 0);
  const Ran ran = folder_.zero("plan c.toml --world 5 --sync.servers 3 --zero.shards hash");
  EXPECT_TRUE(says(one_line(ran.output), "shards hash: a server owns")) << ran.output;
  EXPECT_TRUE(says(one_line(ran.output), "When a server joins,")) << ran.output;
}

TEST_F(ServedCutRuns, RefusesImpossibleOnesBeforeStarting) {
  const auto refused = [&](const std::string& flags, const std::string& reason) {
    const Ran ran = folder_.zero("train c.toml --run.dir run -n 4 --sync.servers 2 " + flags, "timeout 60");
    EXPECT_EQ(ran.status, 2) << flags;
    EXPECT_TRUE(says(one_line(ran.errors), reason)) << ran.errors;
    EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run")) << flags;
  };
  refused("--zero.shards weighted --zero.shard_weights [1,2,1]", "3 weights for 2 servers");
  refused("--zero.shards hash --optimizer.name muon", "use range, or use whole, which gives each matrix to one rank");
  refused("--zero.shards weighted --zero.optimizer {host=0.5}", "use {host = 1} or {disk = 1}");
}

}  // namespace
}  // namespace zero
