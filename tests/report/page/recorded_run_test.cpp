#include "app/report/page/recorded_run.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/report/page/run_on_disk.h"

namespace zero::page {
namespace {

TEST(RecordedRun, FinishedRunUsesItsReport) {
  const RunOnDisk folder("a", {.steps = 20});
  const RecordedRun run = read_run(folder.folder());
  EXPECT_EQ(run.name, "a");
  EXPECT_TRUE(run.done);
  EXPECT_EQ(run.figures.val_loss, 3.125);
  EXPECT_EQ(run.figures.best_val_loss, 3.125);
  EXPECT_EQ(run.figures.most_bytes.device, 5120);
  EXPECT_EQ(run.figures.sent_bytes, 3000);
  EXPECT_EQ(run.figures.step_seconds, 0.2);
  EXPECT_EQ(run.predicted->total, 0.25);
  EXPECT_EQ(run.measured->backward, 0.05);
  ASSERT_EQ(run.memory.size(), 1U);
  EXPECT_EQ(run.memory[0].total, 4608);
  EXPECT_EQ(run.memory[0].tags[0], (std::pair<std::string, double>("parameter", 1024)));
  EXPECT_TRUE(run.notes.empty()) << run.notes[0];
}

TEST(RecordedRun, ReadsUnfinishedRunSoFar) {
  const RunOnDisk folder("a", {.steps = 20, .report = false, .more_lines = "{\"t\": 12"});
  const RecordedRun run = read_run(folder.folder());
  EXPECT_FALSE(run.done);
  EXPECT_EQ(run.figures.steps, 20);
  EXPECT_EQ(run.figures.step_seconds, 0.2);
  EXPECT_NEAR(run.figures.units_per_second.value(), 500, 1e-9);
  EXPECT_EQ(run.figures.most_bytes.device, 4096);
  EXPECT_EQ(run.memory[0].total, 4096);
  EXPECT_FALSE(run.figures.utilization);
  ASSERT_EQ(run.notes.size(), 1U);
  EXPECT_EQ(run.notes[0].substr(0, 28), "not done: 20 of 20 steps are");
}

TEST(RecordedRun, NewRunHasNothingYet) {
  const TemporaryFolder folder;
  folder.write("config.toml", "[train]\nsteps = 5\n");
  const RecordedRun run = read_run(folder.path());
  EXPECT_EQ(run.notes.back(), "no line of metrics.jsonl is there: no curves");
  EXPECT_FALSE(run.figures.loss);
}

TEST(RecordedRun, NotesAndSkipsDamagedReport) {
  for (const char* text : {"{\"steps\": 3", "[]", "", "\"x\""}) {
    const RunOnDisk folder("a");
    folder.write("report.json", text);
    const RecordedRun run = read_run(folder.folder());
    EXPECT_FALSE(run.done) << text;
    EXPECT_EQ(run.notes[0], "report.json is damaged: it is left out") << text;
  }
}

TEST(RecordedRun, ReadsFittingPartsOfOtherForms) {
  const RunOnDisk folder("a");
  folder.write("report.json",
               R"({"steps": "many", "memory_bytes": {"total": 1}, "peak_memory_bytes": [1, {"total": 7}],)"
               R"( "predicted": 5, "profile": [], "formula": null, "command": 3})");
  const RecordedRun run = read_run(folder.folder());
  EXPECT_EQ(run.figures.steps, 20);  // from the metrics
  EXPECT_EQ(run.figures.most_bytes.device, 7);
  EXPECT_FALSE(run.predicted);
}

// The last loss and the last evaluation are NaN or infinite: both files have null for them.
TEST(RecordedRun, LastValueMayBeNotFinite) {
  const std::string nulls = R"({"t": 3000, "step": 21, "loss": null, "step_seconds": 0.2})"
                            "\n"
                            R"({"t": 3001, "step": 21, "val_loss": null, "val_perplexity": null, "eval_seconds": 1})"
                            "\n";
  const RunOnDisk unfinished("a", {.report = false, .more_lines = nulls}), done("b", {.more_lines = nulls});
  done.write("report.json", R"({"steps": 21, "losses": [3.0, null], "val_loss": null, "val_perplexity": null})");
  for (const RunOnDisk* folder : {&unfinished, &done}) {
    const RunFigures figures = read_run(folder->folder()).figures;
    ASSERT_TRUE(figures.loss && figures.val_loss && figures.perplexity);
    EXPECT_TRUE(std::isnan(*figures.loss));
    EXPECT_TRUE(std::isnan(*figures.val_loss));
    EXPECT_TRUE(std::isnan(*figures.perplexity));
    EXPECT_EQ(figures.best_val_loss, 3.25);
    EXPECT_EQ(figures.steps, 21);
  }
}

TEST(RecordedRun, ReportDecidesTheLastLoss) {
  const RunOnDisk folder("a");
  folder.write("report.json", R"({"steps": 20, "losses": [3.0, 0.5], "val_loss": null})");
  const RunFigures figures = read_run(folder.folder()).figures;
  EXPECT_EQ(figures.loss, 0.5);
  EXPECT_TRUE(std::isnan(figures.val_loss.value())) << "not the last one of the metrics";
}

TEST(RecordedRun, NoValidationIsNoRow) {
  const RunOnDisk folder("a");
  folder.write("metrics.jsonl", step_line(1, 1000, 3, 0.1));
  folder.write("report.json", R"({"steps": 1, "losses": [3.0], "val_loss": null})");
  EXPECT_FALSE(read_run(folder.folder()).figures.val_loss);
}

// Ranks of a pipeline hold and send different parts.
TEST(RecordedRun, EachRankHasItsPlan) {
  const RunOnDisk folder("a");
  const auto run = [&](const char* planned) {
    folder.write("report.json",
                 fmt::format(R"({{"planned_sent_bytes": 100, "planned_sent_bytes_of_ranks": {}, )"
                             R"("sent_bytes_per_step": [100, 700, 300], )"
                             R"("formula": {{"state_bytes": 10}}, )"
                             R"("state_formula_bytes_of_ranks": [10, 20, 5], )"
                             R"("memory_bytes": [{{"parameter": 10}}, {{"moment": 1}}, {{"moment": 5}}], )"
                             R"("host_memory_bytes": [{{}}, {{"moment": 19, "staging": 9}}, {{}}], )"
                             R"("disk_read_bytes_per_step": [7, 1], )"
                             R"("disk_written_bytes_per_step": [1, 6]}})",
                             planned));
    return read_run(folder.folder());
  };
  const RecordedRun equal = run("[100, 700, 300]");
  EXPECT_EQ(equal.sent_by_plan->planned, 700);
  EXPECT_EQ(equal.sent_by_plan->measured, 700);
  EXPECT_EQ(equal.states->planned, 20);
  EXPECT_EQ(equal.states->measured, 20);
  EXPECT_EQ(equal.figures.disk_moved, 8) << "of one rank";
  const RecordedRun other = run("[100, 700, 200]");
  EXPECT_EQ(other.sent_by_plan->planned, 200);
  EXPECT_EQ(other.sent_by_plan->measured, 300);
}

TEST(RecordedRun, CountsRanksByActivity) {
  const RunOnDisk folder("a");
  const auto ran_on = [&](const char* report) {
    folder.write("report.json", report);
    const auto facts = read_run(folder.folder()).facts;
    const auto found = std::ranges::find(facts, "ran on", &std::pair<std::string, std::string>::first);
    return found == facts.end() ? "" : found->second;
  };
  EXPECT_EQ(ran_on(R"({"world": 1})"), "1 rank");
  EXPECT_EQ(ran_on(R"({"world": 4})"), "4 ranks");
  EXPECT_EQ(ran_on(R"({"world": 1, "served": {"servers": 1, "workers": 3}})"), "1 server and 3 workers");
  EXPECT_EQ(ran_on(R"({"world": 2, "served": {"servers": 2, "workers": 1}})"), "2 servers and 1 worker");
  EXPECT_EQ(ran_on(R"({"world": "many", "served": 3})"), "");
}

TEST(RecordedRun, FallsBackToSmallTimeline) {
  const RunOnDisk folder("a");
  folder.write("timeline.json", "{\"traceEvents\": []}");
  folder.write("config.toml", "[run]\ntimeline = \"\"\n");
  EXPECT_TRUE(read_run(folder.folder()).timeline);
  folder.write("config.toml", "[run]\ntimeline = \"other.json\"\n");
  EXPECT_FALSE(read_run(folder.folder()).timeline);
}

TEST(RecordedRun, ReadsPeakWithItsMachine) {
  const RunOnDisk folder("a", {.peak_flops = 4e10});
  const RunFigures figures = read_run(folder.folder()).figures;
  EXPECT_EQ(figures.peak_flops, 4e10);
  EXPECT_EQ(figures.num_computing, 2);
  EXPECT_EQ(figures.probed_on, "vm, , threads: 1");
  folder.write("report.json",
               R"({"peak_flops": 3e10, "host": "vm", "threads": 1, "world": 1, "served": {"workers": 3}})");
  EXPECT_EQ(read_run(folder.folder()).figures.num_computing, 3) << "workers compute";
  for (const char* report : {R"({"peak_flops": "many", "host": "vm", "threads": 1, "world": 1})",
                             R"({"peak_flops": 1, "host": "vm", "world": 1})",
                             R"({"peak_flops": 0, "host": "vm", "threads": 1, "world": 1})",
                             R"({"peak_flops": 1, "threads": 1, "world": 1})",
                             R"({"peak_flops": 1, "host": "vm", "threads": 1, "world": 0})"}) {
    folder.write("report.json", report);
    EXPECT_FALSE(read_run(folder.folder()).figures.peak_flops) << report;
  }
}

TEST(RecordedRun, CheckpointsInTheFolderAreEvents) {
  const RunOnDisk folder("a");
  std::filesystem::create_directories(folder.folder() / "checkpoints" / "step-00000010");
  const RecordedRun run = read_run(folder.folder());
  ASSERT_EQ(run.metrics.events.size(), 1U);
  EXPECT_EQ(run.metrics.events[0].kind, "checkpoint");
  EXPECT_EQ(run.metrics.events[0].step, 10);
}

TEST(RecordedRun, RefusesFolderWithoutRun) {
  const TemporaryFolder folder;
  for (const std::filesystem::path& path : {folder.path(), folder / "none"})
    EXPECT_THROW(read_run(path), ConfigError) << path;
}

TEST(RecordedRun, FoldersDistinguishEqualNames) {
  const RunOnDisk a("x"), b("x"), c("y");
  const std::array<std::string, 3> folders{a.folder().string(), b.folder().string() + "/", c.folder().string()};
  const auto runs = read_runs(folders);
  EXPECT_EQ(runs[0].name, a.folder().string());
  EXPECT_NE(runs[0].name, runs[1].name);
  EXPECT_EQ(runs[2].name, "y");
}

}  // namespace
}  // namespace zero::page
