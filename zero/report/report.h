// RunReport: what report.json says about a finished run. The keys and their meaning are the contract of the run folder.
//
//   RunReport report = ...;                    // filled by the trainer
//   write_file(files.report, to_json(report));
//
// Values only; to_json() derives what follows from others: loss_bits, the median and least of the step times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "zero/engine/options.h"
#include "zero/memory/ledger.h"
#include "zero/plan/step_model.h"
#include "zero/report/best_evaluation.h"
#include "zero/report/measured_steps.h"
#include "zero/report/metrics_log.h"
#include "zero/report/run_origin.h"
#include "zero/report/served_report.h"

namespace zero {

// What differs between ranks.
struct RankReport {
  std::int64_t peak_rss = 0;
  std::int64_t steady_rss = 0;  // after the first three steps
  std::int64_t steady_pss = 0;
  MemoryCount memory;  // on the device, just before the first update of the last step
  MemoryCount peak_memory;
  MemoryCount host_memory, disk_memory;  // at the same time
  MemoryCount peak_host_memory;
  StepTransfers transfers;                  // medians: busy, hidden and exposed (waited) seconds
  std::int64_t activations_peak_bytes = 0;  // of activations, at once
  DiskTraffic activations_disk_per_step;    // for them alone
  std::int64_t peak_memory_total = 0, peak_host_memory_total = 0;
  std::int64_t sent_bytes_per_step = 0;
  std::int64_t received_bytes_per_step = 0;
  std::int64_t sent_between_copies_per_step = 0;  // of what it sends, to other copies of the model
  std::int64_t outer_sent_between_copies = 0;     // the same of an outer step
  std::int64_t sent_within_secondary_per_step = 0, sent_between_groups_per_step = 0;  // SecondaryReport
  double startup_s = 0;
  double peak_flops = 0;  // probed, of the rank's threads
};

struct RunReport {
  std::string model;
  std::string dtype;
  std::int64_t steps = 0;
  std::vector<float> losses;  // mean over ranks
  std::vector<double> grad_norms;
  std::vector<double> step_seconds;  // the slowest rank's
  double val_loss = 0;
  std::optional<double> val_accuracy;    // of a task of classes: 0 to 1
  std::optional<double> val_perplexity;  // of a language model: exp(val_loss)
  bool has_validation = false;
  std::int64_t steps_asked = 0;        // train.steps
  bool ended_early = false;            // before them: train.patience
  std::optional<BestEvaluation> best;  // of a run with keep_best or patience
  double tokens_per_step = 0;          // of all ranks; rows where a sample has no tokens
  bool has_tokens = true;
  double flops_per_step = 0;  // of all ranks
  std::string parameters_sha256;
  std::int64_t rewinds = 0;  // how often the run went back to a checkpoint
  std::int64_t spikes = 0;   // steps refused for their loss or norm, those that were taken back too
  EngineReport engine;       // of this rank, after the last step; of what differs between ranks `ranks` has all
  MeasuredStep profile;      // of rank 0
  // At probed rates, made when three steps had shown what the model computes and ranks exchange: the steps that it is
  // compared with came later. Nothing where there were none, or where states moved since.
  std::optional<PredictedStep> predicted;
  // How a disk is used, by states or by activations; empty: not at all.
  std::string disk;
  std::string activations_on;  // "host" or "disk", where activations are offloaded; empty: nowhere
  std::string ranks_source;
  ServedReport served;               // of a run with servers; `ranks` and `engine` are theirs
  std::vector<std::int64_t> shares;  // samples that each rank took in a micro-batch of the last step
  int threads = 1;
  std::string device = "cpu";    // where the model computed: "cuda:0"
  bool states_on_device = true;  // all of them, of rank 0
  std::vector<RankReport> ranks;
  RunOrigin origin;
};

// Steps that are left out of the timing: pages and caches warm up, and the first one records the trace.
constexpr std::size_t kWarmupSteps = 3;

// Of the steps after the warm-up, or of all where there are no more.
double median_step_seconds(const std::vector<double>& seconds);
double least_step_seconds(const std::vector<double>& seconds);

// "3f9d70a4": the bits of a float.
std::string float_bits(float value);

std::string to_json(const RunReport& report);

// The same for people: a few lines of at most 80 columns that end a run.
std::string summary(const RunReport& report);

}  // namespace zero
