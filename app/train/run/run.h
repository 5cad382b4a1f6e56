// Run: the parts of one run, made in the order in which they need each other, and destroyed the other way round. Those
// who open it, start it, train and end it work on these parts, and keep what is theirs alone.
//
//   Run run(job, world, {.out = std::cout, .style = ProgressStyle::of_standard_output()});   // opens the data
//   run.engine.emplace(attach(run.task->module(), world, options));                          // run_start.h
//   run.say("ranks: 2 (zero launch, shared_memory)");                                        // rank 0 prints it
//   run.save();                                                                              // a checkpoint begins
//
// The constructor writes nothing, and allocates nothing for the model. Throws ConfigError for a device that cannot be used,
// data that cannot be read, and a model that does not fit it. Collective, where it says so.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "zero/comm/transport/world.h"
#include "zero/device/device.h"
#include "zero/torch/attach.h"

#include "app/data/open_data.h"
#include "app/report/screen/progress.h"
#include "app/report/step_timeline.h"
#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_folder.h"
#include "app/train/machine/learned_activations.h"
#include "app/train/run/run_health.h"
#include "app/train/run/run_log.h"
#include "app/train/run/run_meter.h"
#include "app/train/tasks/model_kind.h"
#include "app/train/train_job.h"
#include "app/train/train_seams.h"
#include "app/train/watch/evaluation.h"
#include "app/train/watch/stop_signal.h"

namespace zero {

struct TrainOutput {
  std::ostream& out;  // rank 0 prints here
  ProgressStyle style;
  const StopSignal* stop = nullptr;
};

struct Run {
  // All three outlive it. Not on a worker of a run with servers (worker_run.h). Collective over the run, where it has them.
  Run(const TrainJob& job, World& world, const TrainOutput& output, const TrainSeams& seams = {});

  bool is_first() const { return world.rank() == 0; }
  // The ranks that hold the run: all, or its servers. They evaluate, save and tell together.
  Communicator& comm() const { return servers == nullptr ? world.communicator() : *servers; }
  int num_computing() const { return job.attach.sync.num_workers(world.size()); }
  void say(const std::string& line) { progress.line(line); }

  // Collective. Begins a checkpoint of where the run stands, or puts one into the launcher's memory; every step must
  // have been exchanged (RunLog).
  void save();
  void save_in_memory();
  // Collective. The loss over the validation split, told as that of `step`; 0 where there is none. Nothing where a signal to
  // stop has come to a rank meanwhile: then the rest is left out. `batches` of each rank; 0: all of it. With train.ema the same of the averages follows, and is told alone. Of copies that train apart the
  // weights that they share are evaluated.
  std::optional<EvaluationResult> evaluate(std::int64_t step, std::int64_t batches);
  // Collective. The same after the newest step, compared with the evaluations before if a key asks for that
  // (watched_measure()). Is it the best?
  bool evaluate_and_compare();
  // Local. Was this step to be compared, and was not? (A signal came, or keep_best and patience are new.)
  bool evaluation_is_missing() const;
  // Local. Have train.patience evaluations brought nothing better?
  bool ends_early() const;
  // Of the data, for checkpoints (app/data/data_mark.h).
  const std::string& data_mark() const { return mark_; }

  // Collective. Notes what this model's activations have taken of a GPU, for the next run. No-op where no run asks for it.
  void learn_activations();
  // Local. Of the device's memory; 0 on the CPU.
  std::int64_t torch_bytes() const;

  const TrainJob& job;
  World& world;
  const TrainSeams seams;
  const StopSignal* const stop;                 // null: nobody asks for signals
  const std::unique_ptr<Communicator> servers;  // null where there are none
  const std::unique_ptr<Device> device;         // where units lie, and the model computes
  RunFolder folder;
  StepTimeline timeline;
  Corpus corpus;
  std::unique_ptr<Task> task;
  std::optional<LearnedActivations> learned;  // absent where a budget is given, or the device is main memory
  RunMeter meter;
  Progress progress;
  RunLog log;
  SampleShares shares;
  RunState state;                    // where the run stands; its series are those of the last save: `log` has them
  std::optional<Attachment> engine;  // gone before the module that it is attached to
  RunCheckpoints checkpoints;        // after it: a save goes before the engine that it is of
  RunHealth health;
  ServedReport served;  // of a run with servers, so far
  std::string places;   // at which its ranks compute (computing_place.h)

 private:
  const RunState& state_to_save();
  const std::string mark_;  // of the corpus
  std::optional<EvaluationResult> evaluate_weights(std::int64_t step, std::int64_t batches, bool averaged);
};

}  // namespace zero
