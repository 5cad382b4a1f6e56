// Weighted ranges between processes, over every transport and at every stage: the bits of equal ranges, and the planned
// bytes. Messages move blocks of different size in another way than shared memory does.
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/parity/process_report.h"

namespace zero {
namespace {

Json report_of(const std::string& transport, const std::string& keys) {
  return process_report(/*ranks=*/3, transport, keys);
}

class WeightedProcesses : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, WeightedProcesses, testing::Values("shared_memory", "mpi", "gloo"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(WeightedProcesses, MatchEqualRangesAndPlannedBytes) {
  const std::string transport = GetParam();
  if (const std::string why = missing(transport); !why.empty()) GTEST_SKIP() << why;
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
