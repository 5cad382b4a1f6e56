// Bytes in metrics.jsonl, summed over all steps, equal those of report.json, in every mode of training.
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "tests/cli/training_test.h"
#include "tests/support/json_lines.h"

namespace zero {
namespace {

using Json = nlohmann::json;

class MetricsSums : public TrainingTest {
 protected:
  MetricsSums() : TrainingTest(small_gpt(at_one_rate("steps = 10\nbatch = 2\neval_every = 4\nlog_every = 3\n"))) {}

  // The sum of a key, or of a key in the object `of`, over the lines of steps. Null if no line has it.
  Json sum(const std::string& run, const std::string& key, const std::string& of = "") const {
    Json total;
    for (const Json& line : json_lines(folder_.read(run + "/metrics.jsonl"))) {
      if (!line.contains("loss")) continue;
      const Json& holder = of.empty() ? line : line.contains(of) ? line.at(of) : Json::object();
      if (!holder.contains(key)) continue;
      const auto more = holder.at(key).get<std::int64_t>();
      total = total.is_null() ? more : total.get<std::int64_t>() + more;
    }
    return total;
  }
  void expect_sums(const std::string& run, const Json& report) const {
    ASSERT_TRUE(report.is_object());
    EXPECT_EQ(sum(run, "sent_bytes"), report.at("sent_bytes_total").at(0));
    if (report.contains("copies")) {
      EXPECT_EQ(sum(run, "sent_between_copies"), report.at("copies").at("sent_bytes_total").at(0));
    }
    if (!report.contains("served")) {
      EXPECT_GT(report.at("sent_bytes_total").at(0), 0) << "ranks send bytes in every mode without servers";
      return;
    }
    for (const char* key : {"updates", "dropped", "pushed_bytes", "pulled_bytes"})
      EXPECT_EQ(sum(run, key, "served"), report.at("served").at(key)) << key;
  }
};

TEST_F(MetricsSums, EveryModeEqualsReport) {
  const std::map<std::string, std::string> ways{
      {"stage0", "-n 2 --zero.stage 0"},
      {"stage3", "-n 2 --zero.stage 3"},
      {"accumulated", "-n 2 --train.accumulate 2 --train.reduce last"},
      {"ema", "-n 2 --train.ema 0.9"},
      {"disk", "-n 2 --zero.disk . --zero.optimizer '{disk=1}'"},
      {"delayed", "-n 2 --zero.delayed_update true --zero.optimizer '{host=1}'"},
      {"coded", "-n 2 --comm.gather_wire int8 --comm.reduce_wire int8"},
      {"groups", "-n 4 --zero.group 2"},
      {"muon", "-n 2 --optimizer.name muon"},
      {"local", "-n 2 --sync.mode local --sync.local_steps 4"},
      {"coded_local", "-n 2 --sync.mode local --sync.local_steps 4 --comm.outer_wire int4"},
      {"topk_local", "-n 2 --sync.mode local --sync.local_steps 4 --comm.outer_wire topk"},
      {"overlap", "-n 2 --sync.mode local --sync.local_steps 4 --sync.fragments 2 --sync.overlap 2"},
      {"saved_overlap",
       "-n 2 --sync.mode local --sync.local_steps 4 --sync.overlap 3 --checkpoint.every 5 --zero.stage 1"},
      {"groups_local", "-n 4 --zero.group 2 --sync.mode local --sync.local_steps 3 --sync.overlap 2"},
      {"servers", "-n 3 --sync.servers 1"},
      {"quorum", "-n 4 --sync.servers 1 --sync.quorum 2"},
      {"stale", "-n 3 --sync.mode stale --sync.staleness 1"},
      {"async", "-n 3 --sync.mode async"},
      {"two_servers", "-n 4 --sync.mode async --sync.servers 2 --zero.shards hash"},
      {"pipeline", "-n 2 --parallel.pipeline 2 --train.accumulate 4"},
      {"lines", "-n 4 --parallel.pipeline 2 --train.accumulate 4 --zero.group 1"},
      {"leaves", "-n 2 --train.leaves 4 --train.global_batch 8"},
      {"last_leaves", "-n 2 --train.leaves 4 --train.global_batch 8 --train.reduce last --zero.stage 2"},
      {"leaves_of_lines", "-n 4 --parallel.pipeline 2 --train.leaves 4 --train.global_batch 8"}};
  for (const auto& [run, flags] : ways) {
    SCOPED_TRACE(run + ": " + flags);
    expect_sums(run, report_of(flags, run));
  }
}

// A run that continues from a checkpoint counts the steps of both processes. If a step always sends the same bytes,
// each rank has the total of an undisturbed run. The merge at the first end is not part of the run that continues.
TEST_F(MetricsSums, ResumedRunEqualsReport) {
  const std::map<std::string, std::string> ways{
      {"stage0", "-n 2 --zero.stage 0"},
      {"stage3", "-n 2"},
      {"local", "-n 2 --sync.mode local --sync.local_steps 4"},
      {"overlap", "-n 2 --sync.mode local --sync.local_steps 4 --sync.overlap 3"},
      {"stale", "-n 3 --sync.mode stale --sync.staleness 1"},
      {"pipeline", "-n 2 --parallel.pipeline 2 --train.accumulate 4"}};
  for (const auto& [run, flags] : ways) {
    SCOPED_TRACE(run + ": " + flags);
    ASSERT_TRUE(report_of(flags + " --train.steps 5 --checkpoint.every 5", run).is_object());
    const Json resumed = report_of(flags, run);
    expect_sums(run, resumed);
    if (run == "stale") {
      EXPECT_EQ(resumed.at("served").at("updates"), 10);
    }
    // At stage 3 the first step of a process may gather more, and a save completes sums that overlap with steps.
    if (run != "stage0" && run != "local" && run != "pipeline") continue;
    const Json whole = report_of(flags, run + "_whole");
    EXPECT_EQ(resumed.at("sent_bytes_total"), whole.at("sent_bytes_total"));
    if (whole.contains("copies")) {
      EXPECT_EQ(resumed.at("copies").at("sent_bytes_total"), whole.at("copies").at("sent_bytes_total"));
    }
  }
}

// The report is lost, and the next process takes no step. Its merge replaces that of the first process.
TEST_F(MetricsSums, LostReportIsWrittenAgain) {
  const std::string flags = "-n 2 --sync.mode local --sync.local_steps 4 --checkpoint.every 5";
  const Json whole = report_of(flags, "run");
  expect_sums("run", whole);
  std::filesystem::remove(folder_.path() / "run/report.json");
  const Json again = report_of(flags, "run");
  expect_sums("run", again);
  EXPECT_EQ(again.at("sent_bytes_total"), whole.at("sent_bytes_total"));
  EXPECT_EQ(again.at("copies").at("sent_bytes_total"), whole.at("copies").at("sent_bytes_total"));
}

// There are outer steps after steps 4, 8 and 12, and one more ends the run.
TEST_F(MetricsSums, LastLineCountsTheOuterStep) {
  const Json report =
      report_of("-n 2 --train.steps 13 --train.eval_every 0 --sync.mode local --sync.local_steps 4", "run");
  ASSERT_TRUE(report.is_object());
  const auto planned = report.at("copies").at("outer_step").at("planned_sent_bytes").get<std::int64_t>();
  EXPECT_EQ(sum("run", "sent_between_copies"), 4 * planned);
  const Json last = json_lines(folder_.read("run/metrics.jsonl")).at(12);
  EXPECT_EQ(last.at("step"), 13);
  EXPECT_EQ(last.at("sent_between_copies"), planned);
  EXPECT_EQ(last.at("ranks").at("sent_bytes").at("copies").at("none").at(1), planned) << "also rank 1's bytes";
}

// A fragment in exchange at the end of training takes its result, without another outer step.
TEST_F(MetricsSums, OverlappedSumsAreAllCounted) {
  const std::string local = "-n 2 --train.eval_every 0 --sync.mode local --sync.local_steps 4 ";
  const Json at_once = report_of("--train.steps 8 " + local, "once");
  const Json overlapped = report_of("--train.steps 10 --sync.overlap 3 " + local, "overlapped");
  const auto planned = at_once.at("copies").at("outer_step").at("planned_sent_bytes").get<std::int64_t>();
  EXPECT_EQ(sum("once", "sent_between_copies"), 2 * planned);
  EXPECT_EQ(sum("overlapped", "sent_between_copies"), 2 * planned) << "sums begin after steps 4 and 8";
}

}  // namespace
}  // namespace zero
