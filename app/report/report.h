// RunReport: the contents of report.json about a finished run. Its keys and their meaning are a contract with readers
// of run folders.
//
//   RunReport report = ...;                    // filled by the trainer
//   write_file(files.report, to_json(report));
//
// Values only. to_json() derives further figures: loss_bits, the median and the least of the step times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/engine/options/options.h"
#include "zero/memory/account/ledger.h"
#include "zero/plan/model/step_model.h"

#include "app/report/best_evaluation.h"
#include "app/report/files/metrics_log.h"
#include "app/report/files/run_origin.h"
#include "app/report/files/served_report.h"
#include "app/report/measured_steps.h"

namespace zero {

// The figures that differ between ranks.
struct RankReport {
  std::int64_t peak_rss = 0;
  std::int64_t steady_rss = 0;  // after the first three steps
  std::int64_t steady_pss = 0;
  PerTier<MemoryCount> memory;              // just before the first update of the last step
  PerTier<MemoryCount> peak_memory;         // of each tag
  PerTier<std::int64_t> peak_memory_total;  // of the sum
  StepTransfers transfers;                  // medians: busy, hidden and exposed (waited) seconds
  std::int64_t activations_peak_bytes = 0;  // at any time
  DiskTraffic activations_disk_per_step;    // of activations only
  std::int64_t sent_bytes_per_step = 0;
  std::int64_t received_bytes_per_step = 0;
  std::int64_t planned_sent_bytes = 0;                     // of this rank, as the formulas below
  double state_formula_bytes = 0, sent_formula_bytes = 0;  // of this rank's sections; 0: those of EngineReport
  std::int64_t sent_between_copies_per_step = 0;           // part of sent_bytes_per_step, to other copies of the model
  std::int64_t outer_sent_between_copies = 0;              // the same, of an outer step
  // In all steps of the run, outer steps included: the sums over the lines in metrics.jsonl.
  std::int64_t sent_bytes_total = 0, sent_between_copies_total = 0;
  std::int64_t sent_within_secondary_per_step = 0, sent_between_groups_per_step = 0;  // SecondaryReport
  double startup_s = 0;
  double peak_flops = 0;  // probed, with the rank's threads
};

// The steps of a run.
struct StepsReport {
  std::int64_t done = 0;
  std::int64_t asked = 0;     // train.steps
  bool ended_early = false;   // before all steps were done: train.patience
  std::vector<float> losses;  // mean over ranks
  std::vector<double> grad_norms;
  std::vector<double> seconds;  // of the slowest rank
  std::int64_t rewinds = 0;     // times that the run returned to a checkpoint
  std::int64_t spikes = 0;      // steps refused for their loss or norm, also steps that were taken back
};

// The evaluation at the end, and the best evaluation.
struct ValidationReport {
  bool present = false;  // there was an evaluation at the end
  double loss = 0;
  std::optional<double> accuracy;      // of a classification task: 0 to 1
  std::optional<double> perplexity;    // of a language model: exp(loss)
  std::optional<BestEvaluation> best;  // of a run with keep_best or patience
};

// The work of a step, of all ranks.
struct WorkReport {
  double tokens = 0;  // rows if a sample has no tokens
  bool has_tokens = true;
  double flops = 0;
};

// The device of rank 0's model, and the tiers of its states and activations.
struct MachineReport {
  std::string ranks_source;
  int threads = 1;
  std::string device = "cpu";    // device on which the model computed: "cuda:0"
  bool states_on_device = true;  // true: all states are there
  std::string disk;              // how states or activations use a disk; empty: not at all
  std::string activations_on;    // "host" or "disk", if activations are offloaded; empty: they are not
};

struct RunReport {
  std::string model;
  std::string dtype;
  StepsReport steps;
  ValidationReport validation;
  WorkReport work;
  MachineReport machine;
  std::string parameters_sha256;
  EngineReport engine;   // of this rank, after the last step; `ranks` has the figures that differ between ranks
  MeasuredStep profile;  // of rank 0
  // The prediction from probed rates, made after three steps have shown what the model computes and ranks exchange. It
  // is compared with later steps. Absent if there were none, or if states have moved since.
  std::optional<PredictedStep> predicted;
  ServedReport served;               // for a run with servers; `ranks` and `engine` are then those of the servers
  std::vector<std::int64_t> shares;  // samples of each rank in a micro-batch of the last step
  std::vector<RankReport> ranks;
  RunOrigin origin;
};

// Steps that timing leaves out: pages and caches warm up, and the first step records the trace.
constexpr std::size_t kWarmupSteps = 3;

// These count the steps after the warm-up, or all steps if there are no more.
double median_step_seconds(const std::vector<double>& seconds);
double least_step_seconds(const std::vector<double>& seconds);

// Returns the bits of a float: "3f9d70a4".
std::string float_bits(float value);

std::string to_json(const RunReport& report);

// Returns the report for people: a few lines of at most 80 columns at the end of a run.
std::string summary(const RunReport& report);

}  // namespace zero
