// TrainJob: all options of one run, each part in the struct of the code that reads it.
//
//   TrainJob job{.model = {...}, .data = {...}, .train = {...}, .attach = {.stage = 3}, .run_dir = "runs/mine"};
//   samples_per_step(job.train, world.size())
//
// Values only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "zero/optim/lr_schedule.h"
#include "zero/plan/pipeline/pipeline.h"
#include "zero/torch/attach.h"

#include "app/data/open_data.h"
#include "app/report/step_timeline.h"
#include "app/train/folder/computing_place.h"
#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_launch.h"
#include "app/train/tasks/model_options.h"
#include "app/train/tasks/step_options.h"
#include "app/train/watch/health.h"

namespace zero {

struct TrainJob {
  ModelOptions model;
  DataOptions data;  // context 0: the model's context
  StepOptions train;
  LrSchedule schedule;
  CheckpointPolicy checkpoint{};
  HealthOptions health{};
  AttachOptions attach;
  PipelineOptions pipeline{};
  std::string group_line;                    // why this size of shard group was chosen; empty: the user chose it
  PerTier<std::int64_t> activation_bytes{};  // of offloaded activations, as EngineHost::activation_bytes
  std::string device = "cpu";                // device of this rank: "cpu", "cuda:1"
  std::filesystem::path run_dir;
  bool overwrite = false;
  std::filesystem::path replay;        // folder of a run with servers whose order of events is repeated; empty: none
  std::vector<ComputingPlace> places;  // by rank, in a run with servers, after the rendezvous
  std::vector<std::int64_t> saves;     // `zero verify`: the only steps that are saved; the run pauses after the last
  std::string replay_line;             // printed: the threads that a replay takes from the recorded run
  RunLaunch launch;                    // the launch that started this rank
  bool probe_again = false;            // probes the machine's rates, also if they are known
  std::string config_text;             // contents of config.toml
  std::uint64_t config_hash = 0;       // ranks with different hashes do not start
  std::vector<std::string> notes;      // lines about the configuration, for the user
  TimelineOptions timeline;
  bool tensorboard = false;  // writes event files into the run folder
};

// Returns the measure by which the run compares its evaluations. Empty if neither keep_best nor patience is set.
inline std::optional<BestMeasure> watched_measure(const TrainJob& job) {
  if (job.checkpoint.keep_best) return job.checkpoint.keep_best;
  return job.train.patience > 0 ? std::optional(BestMeasure::kLoss) : std::nullopt;
}

// Returns the step after which nothing more is computed.
inline std::int64_t last_step(const TrainJob& job) {
  return job.saves.empty() ? job.train.steps : std::min(job.saves.back(), job.train.steps);
}

// Returns the options of the data, with the model's context if the data has none.
DataOptions with_context(const TrainJob& job);
// Opens the run's data. Throws what open_data() throws, and ConfigError with file and place for a token that is not
// smaller than model.vocab.
Corpus open_corpus(const TrainJob& job);

}  // namespace zero
