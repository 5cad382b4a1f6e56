// RecordedRun: the contents of a run folder, however far its run came.
//
//   const std::vector<RecordedRun> runs = read_runs({"runs/a", "runs/b"});
//   runs[0].name                  // "a"; the whole path if two folders have the same name
//   runs[0].figures.step_seconds  // empty if neither report nor metrics have it
//   runs[0].notes                 // "2 damaged lines of metrics.jsonl are left out", for people
//
// Missing or damaged files are noted and left out. Values only; Local. Throws ConfigError for a folder that holds no
// run, IoError for a file that cannot be read.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "zero/base/numbers/tier.h"

#include "app/report/page/metrics_file.h"
#include "app/report/page/plan_text.h"
#include "app/report/page/timeline_file.h"
#include "app/report/same_configuration.h"

namespace zero::page {

// Bytes on a tier, of the rank that holds most there, just before the first update of the last step.
struct RecordedMemory {
  std::string tier;                                  // "device", "host", "disk"
  std::vector<std::pair<std::string, double>> tags;  // "parameter", ..., in the order of the ledger
  double total = 0;
  double peak = 0;  // the most at any time; 0 if unknown
};

// Seconds of a step, by phase.
struct PhaseTimes {
  double forward = 0, backward = 0, update = 0;
  double exposed = 0;  // part of them: waits for disk and link; not predicted
  double total = 0;
  std::string bound;  // the busiest resource of a prediction
};

// A planned value beside the measured value, of one rank.
struct PlannedAndMeasured {
  double planned = 0, measured = 0;
};

// Figures from report.json; if there is none yet, from metrics.jsonl as far as it has them. NaN: null in the file,
// because the value was not finite.
struct RunFigures {
  using Figure = std::optional<double>;
  Figure steps, loss, val_loss, best_val_loss, accuracy, perplexity;
  Figure val_loss_ema, accuracy_ema, perplexity_ema;  // of the average of the weights (train.ema)
  Figure units_per_second;                            // tokens, or rows
  Figure step_seconds;                                // median
  Figure utilization;                                 // relative to the run's own peak_flops
  Figure peak_flops;                                  // sum over all ranks that compute, probed at the end of the run
  double num_computing = 0;                           // number of these ranks, if peak_flops is known
  std::string probed_on;       // if peak_flops is known: machine, device and threads, on which a probe depends
  PerTier<Figure> most_bytes;  // of the rank that holds most: at any time if the report has peaks of the tier
  // in a step, of the rank that moves most; disk and link in both directions
  Figure sent_bytes, disk_moved, link_moved;
  Figure exposed_seconds;  // of a step
  Figure skipped_steps, rewinds, total_seconds;
  bool counts_tokens = true;
};

struct RecordedRun {
  std::string name;
  std::filesystem::path folder;
  bool done = false;
  std::vector<std::string> notes;
  std::vector<std::pair<std::string, std::string>> facts;  // "machine" -> "AMD EPYC, 2 cores", for people
  ConfigurationKeys configuration;
  std::string plan;  // plan.txt
  std::vector<PlannedTier> planned;
  MetricsFile metrics;
  RunFigures figures;
  std::vector<RecordedMemory> memory;
  std::optional<PhaseTimes> predicted, measured;
  // Beside the measured bytes: bytes of states by the stage's formula, and bytes sent in a step by plan and by formula.
  // They belong to the rank whose values differ most.
  std::optional<PlannedAndMeasured> states, sent_by_plan, sent_by_formula;
  std::optional<StepTimelineFile> timeline;
};

RecordedRun read_run(const std::filesystem::path& folder);
std::vector<RecordedRun> read_runs(std::span<const std::string> folders);

}  // namespace zero::page
