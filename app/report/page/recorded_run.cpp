#include "app/report/page/recorded_run.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/checkpoint/no_run.h"
#include "zero/memory/account/ledger.h"

#include "app/report/page/report_file.h"
#include "app/report/report.h"

namespace zero::page {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostPlanBytes = 1 << 20;
constexpr const char* kUnaskedTimeline = "timeline.json";  // used if run.timeline is empty

std::string text_if_there(const fs::path& path) {
  std::error_code missing;
  const std::uintmax_t bytes = fs::file_size(path, missing);
  return missing || bytes > kMostPlanBytes ? "" : read_file(path);
}

// Returns "timeline.json" for a TOML value in quotes.
std::string unquoted(const ConfigurationKeys& keys, std::string_view key) {
  const auto found = keys.find(key);
  if (found == keys.end()) return "";
  const std::string& value = found->second;
  return value.size() >= 2 && value.front() == '"' && value.back() == '"' ? value.substr(1, value.size() - 2) : value;
}

template <typename Choose>
RunFigures::Figure chosen_of(const MetricsFile& metrics, std::string_view name, Choose choose) {
  const auto* curve = metrics.curve(name);
  return curve ? RunFigures::Figure(choose(*curve, {}, &CurvePoint::value)->value) : std::nullopt;
}

// Adds the figures that the report does not have.
void add_metrics(const MetricsFile& metrics, RunFigures& figures) {
  const auto otherwise = [](RunFigures::Figure& figure, const RunFigures::Figure& value) {
    if (!figure) figure = value;
  };
  for (const char* name : {"step_seconds", "loss"})
    if (const auto* curve = metrics.curve(name)) otherwise(figures.steps, curve->back().step);
  otherwise(figures.loss, metrics.last("loss"));
  // report.json also has null if the run has no validation data.
  if (figures.val_loss && !std::isfinite(*figures.val_loss) && !metrics.last("val_loss")) figures.val_loss.reset();
  otherwise(figures.val_loss, metrics.last("val_loss"));
  otherwise(figures.best_val_loss, chosen_of(metrics, "val_loss", std::ranges::min_element));
  if (figures.val_loss && std::isfinite(*figures.val_loss) && figures.best_val_loss)
    figures.best_val_loss = std::min(*figures.val_loss, *figures.best_val_loss);
  for (const char* name : {"val_accuracy", "accuracy"}) otherwise(figures.accuracy, metrics.last(name));
  otherwise(figures.perplexity, metrics.last("val_perplexity"));
  otherwise(figures.val_loss_ema, metrics.last("val_loss_ema"));
  otherwise(figures.accuracy_ema, metrics.last("val_accuracy_ema"));
  otherwise(figures.perplexity_ema, metrics.last("val_perplexity_ema"));
  otherwise(figures.most_bytes.device, chosen_of(metrics, "memory_bytes.total", std::ranges::max_element));
  otherwise(figures.sent_bytes, metrics.last("sent_bytes"));
  otherwise(figures.total_seconds, metrics.last("elapsed_seconds"));
  if (!metrics.step_seconds.empty()) otherwise(figures.step_seconds, median_step_seconds(metrics.step_seconds));
  figures.counts_tokens = metrics.curve("rows_per_second") == nullptr;
  const char* const rate = figures.counts_tokens ? "tokens_per_second" : "rows_per_second";
  // Every step has the same number of units: the last rate times the seconds of its step.
  const auto units = metrics.last(rate), seconds = metrics.last("step_seconds");
  if (units && seconds && figures.step_seconds.value_or(0) > 0)
    otherwise(figures.units_per_second, *units * *seconds / *figures.step_seconds);
}

// For a run without a report: adds the memory of its last line.
void add_memory(RecordedRun& run) {
  if (!run.memory.empty() || !run.metrics.curve("memory_bytes.total")) return;
  RecordedMemory device{.tier = "device"};
  for (const MemoryTag tag : kAllMemoryTags)
    device.tags.emplace_back(name_of(tag), run.metrics.last(fmt::format("memory_bytes.{}", name_of(tag))).value_or(0));
  device.total = *run.metrics.last("memory_bytes.total");
  device.peak = run.figures.most_bytes.device.value_or(0);
  run.memory.push_back(std::move(device));
}

void add_checkpoints(RecordedRun& run) {
  for (const auto& entry : CheckpointFolder(run.folder / "checkpoints").list())
    run.metrics.events.push_back({static_cast<double>(entry.step), "checkpoint",
                                  fmt::format("checkpoint of step {} is in the folder", entry.step)});
  std::ranges::stable_sort(run.metrics.events, {}, &RunEvent::step);
}

void note_what_is_missing(RecordedRun& run) {
  const MetricsFile& metrics = run.metrics;
  if (!run.done) {
    const std::string steps = unquoted(run.configuration, "train.steps");
    run.notes.push_back(fmt::format("not done: {}{} steps are there; it is going on, or ended before its report",
                                    metrics.step_seconds.size(), steps.empty() ? "" : " of " + steps));
  }
  if (metrics.num_lines == 0) run.notes.push_back("no line of metrics.jsonl is there: no curves");
  if (metrics.num_damaged > 0)
    run.notes.push_back(
        fmt::format("{} damaged {} left out", metrics.num_damaged,
                    metrics.num_damaged == 1 ? "line of metrics.jsonl is" : "lines of metrics.jsonl are"));
  if (metrics.num_events_beyond > 0)
    run.notes.push_back(fmt::format("{} more events are left out", metrics.num_events_beyond));
  if (run.timeline && !run.timeline->problem.empty()) run.notes.push_back(run.timeline->problem);
  if (run.timeline && run.timeline->num_left_out > 0)
    run.notes.push_back(fmt::format("the {} shortest spans of its timeline are left out", run.timeline->num_left_out));
}

}  // namespace

RecordedRun read_run(const fs::path& folder) {
  if (!fs::exists(folder / "config.toml")) {
    const NoRun no_run = why_no_run(folder).value_or(
        NoRun{"a folder without config.toml: not a run", "name the [run] dir of a `zero train`"});
    throw ConfigError("RUN", folder.string(), no_run.reason, no_run.remedy);
  }
  RecordedRun run{.folder = folder};
  run.name = fs::absolute(folder / "").lexically_normal().parent_path().filename().string();
  run.configuration = keys_of_configuration(read_file(folder / "config.toml"));
  run.plan = text_if_there(folder / "plan.txt");
  run.planned = planned_tiers(run.plan);
  run.metrics = read_metrics(folder / "metrics.jsonl");
  if (fs::exists(folder / "report.json")) read_report(folder / "report.json", run);
  add_metrics(run.metrics, run.figures);
  add_memory(run);
  add_checkpoints(run);
  const std::string timeline = unquoted(run.configuration, "run.timeline");
  run.timeline = read_timeline(folder / (timeline.empty() ? kUnaskedTimeline : timeline));
  note_what_is_missing(run);
  return run;
}

std::vector<RecordedRun> read_runs(std::span<const std::string> folders) {
  std::vector<RecordedRun> runs;
  std::multiset<std::string> names;
  for (const std::string& folder : folders) {
    runs.push_back(read_run(folder));
    names.insert(runs.back().name);
  }
  for (RecordedRun& run : runs)
    if (run.name.empty() || names.count(run.name) > 1) run.name = run.folder.string();
  return runs;
}

}  // namespace zero::page
