// TrainJob: all that one run is told, each part in the words of the part that reads it.
//
//   TrainJob job{.model = {...}, .data = {...}, .train = {...}, .attach = {.stage = 3}, .run_dir = "runs/mine"};
//   samples_per_step(job.train, world.size())
//
// Values only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "zero/optim/lr_schedule.h"
#include "zero/torch/attach.h"

#include "app/data/open_data.h"
#include "app/report/step_timeline.h"
#include "app/train/folder/computing_place.h"
#include "app/train/folder/run_checkpoints.h"
#include "app/train/tasks/model_options.h"
#include "app/train/watch/health.h"
#include "app/train/watch/sample_shares.h"

namespace zero {

struct StepOptions {
  std::int64_t steps = 2000;
  std::int64_t batch = 6;  // samples per rank and micro-batch, in the mean over ranks
  ShareOptions share;      // how many each rank takes
  std::int64_t accumulate = 1;
  double gradient_noise = 0;  // eta of GradientNoise; 0: none
  std::uint64_t seed = 1337;
  std::int64_t eval_every = 250;   // 0: only at the end
  std::int64_t eval_batches = 20;  // 0: the whole split; the last evaluation always is
  std::int64_t patience = 0;       // evaluations without a better one after which the run ends; 0: it never does
  std::int64_t log_every = 10;
  std::int64_t sample = 0;  // tokens to generate when done
};

struct TrainJob {
  ModelOptions model;
  DataOptions data;  // its context may be 0: the model's
  StepOptions train;
  LrSchedule schedule;
  CheckpointPolicy checkpoint{};
  HealthOptions health{};
  AttachOptions attach;
  std::string
      group_line;  // why so many ranks hold the model once, where that was chosen for the run; empty: it was not
  std::int64_t host_activation_bytes =
      0;  // of a rank's offloaded activations, where attach.offload.host_memory is kAuto
  std::int64_t device_activation_bytes = 0;  // of their blocks on the device
  std::string device = "cpu";                // of this rank: "cpu", "cuda:1"
  int ranks_on_device = 1;                   // ranks of this machine that share it
  std::filesystem::path run_dir;
  bool overwrite = false;
  std::filesystem::path replay;        // a run with servers, whose order of events this one repeats; empty: none
  std::vector<ComputingPlace> places;  // of a run with servers, by rank, once they have met
  std::string replay_line;             // for people: the threads that a replay takes from the recorded run
  std::string launch;                  // one for all attempts of a launcher
  bool restarted = false;              // a later attempt, which goes on with what an earlier one began
  bool probe_again = false;            // what the machine manages, also where it is known from before
  std::string config_text;             // for config.toml
  std::uint64_t config_hash = 0;       // ranks that differ in it do not start
  std::vector<std::string> notes;      // of the configuration, for the user
  TimelineOptions timeline;
  bool tensorboard = false;  // event files in the run folder
};

// Does the run compare its evaluations, and by what? Nothing: neither keep_best nor patience asks for it.
inline std::optional<BestMeasure> watched_measure(const TrainJob& job) {
  if (job.checkpoint.keep_best) return job.checkpoint.keep_best;
  return job.train.patience > 0 ? std::optional(BestMeasure::kLoss) : std::nullopt;
}

// Over all ranks.
inline std::int64_t samples_per_step(const StepOptions& options, int world) {
  return options.batch * options.accumulate * world;
}

// The data, with the context of the model where it has none of its own.
DataOptions with_context(const TrainJob& job);
// Its data. Throws what open_data() does, and ConfigError with file and place for a token that model.vocab has no room for.
Corpus open_corpus(const TrainJob& job);

}  // namespace zero
