// The report of a rank that has several sections of a pipeline.
#include "zero/torch/pipeline/joined_report.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

EngineReport report_of_section(std::int64_t scale) {
  EngineReport report;
  report.requests_per_step.disk = {
      .read_bytes = 2 * scale, .written_bytes = 3 * scale, .waited_seconds = 0.5, .busy_seconds = 1};
  report.link_per_step = {.up_bytes = 4 * scale, .down_bytes = 5 * scale, .busy_seconds = 0.25};
  report.secondary = {.group = 2, .sent_bytes_per_step = 6 * scale, .sent_between_groups = 7 * scale};
  report.copies = {.number = 2, .sent_bytes_per_step = 8 * scale};
  report.movable = scale > 1;
  return report;
}

TEST(JoinedReport, SumsTransfers) {
  const EngineReport whole = joined_report({report_of_section(1), report_of_section(10)});
  EXPECT_EQ(whole.requests_per_step.disk.read_bytes, 22);
  EXPECT_EQ(whole.requests_per_step.disk.written_bytes, 33);
  EXPECT_EQ(whole.requests_per_step.disk.waited_seconds, 1);
  EXPECT_EQ(whole.requests_per_step.disk.busy_seconds, 2);
  EXPECT_EQ(whole.link_per_step.up_bytes, 44);
  EXPECT_EQ(whole.link_per_step.down_bytes, 55);
  EXPECT_EQ(whole.link_per_step.busy_seconds, 0.5);
  EXPECT_EQ(whole.secondary.group, 2);
  EXPECT_EQ(whole.secondary.sent_bytes_per_step, 66);
  EXPECT_EQ(whole.secondary.sent_between_groups, 77);
  EXPECT_EQ(whole.copies.number, 2);
  EXPECT_EQ(whole.copies.sent_bytes_per_step, 88);
  EXPECT_TRUE(whole.movable);
}

}  // namespace
}  // namespace zero
