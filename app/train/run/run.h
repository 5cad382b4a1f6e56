// Run: the parts of one run, constructed in the order of their dependencies and destroyed in reverse.
//
//   Run run(job, world, {.out = std::cout, .style = ProgressStyle::of_standard_output()});   // opens the data
//   run.engine.emplace(attach(run.task->module(), world, options));                          // run_start.h
//   run.say("ranks: 2 (zero launch, shared_memory)");                                        // rank 0 prints it
//   run.save();                                                                              // a checkpoint begins
//
// The code that opens, starts, trains and ends a run shares these parts. Data that only one of these phases needs are
// not here. The constructor writes nothing, and allocates nothing for the model. Throws ConfigError for a device that
// cannot be used, data that cannot be read, and a model that does not fit the data. Local, unless a function says
// otherwise.
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
#include "app/train/engine/engine_of_run.h"
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
#include "app/train/watch/sample_shares.h"
#include "app/train/watch/stop_signal.h"

namespace zero {

struct TrainOutput {
  std::ostream& out;  // rank 0 prints here
  ProgressStyle style;
  const StopSignal* stop = nullptr;
};

struct Run {
  // `job`, `world` and `output` must outlive it. A worker of a run with servers does not use it (worker_run.h).
  // Collective over the run if it has servers.
  Run(const TrainJob& job, World& world, const TrainOutput& output, const TrainSeams& seams = {});

  bool is_first() const { return world.rank() == 0; }
  // The ranks that hold the run: all ranks, or its servers. They evaluate, save and report together.
  Communicator& comm() const { return servers == nullptr ? world.communicator() : *servers; }
  // The ranks that compute different samples.
  int num_computing() const { return job.attach.sync.num_workers(world.size()) / job.pipeline.pipeline; }
  EngineOfRun trained() { return pipeline ? EngineOfRun(*pipeline) : EngineOfRun(*engine); }
  void say(const std::string& line) { progress.line(line); }

  // Collective. Begin a checkpoint of the current step, on disk or in the launcher's memory. The metrics of every step
  // must have been exchanged before (RunLog).
  void save();
  void save_in_memory();
  // Collective. Returns the loss over the validation split and logs it for `step`; 0 if there is no split. Empty if a
  // rank received a signal to stop: the rest of the evaluation is left out. `batches`: batches of each rank; 0: all of
  // them. With train.ema, the averages are then evaluated too and logged separately. If copies train apart, the weights
  // that they share are evaluated.
  std::optional<EvaluationResult> evaluate(std::int64_t step, std::int64_t batches);
  // Collective. Evaluates after the newest step. If a key asks for it (watched_measure()), compares the result with
  // earlier evaluations. True if it is the best.
  bool evaluate_and_compare();
  // Local. True if this step should have been compared and was not: a signal came, or keep_best and patience are new.
  bool evaluation_is_missing() const;
  // Local. True if the last train.patience evaluations brought no improvement.
  bool ends_early() const;
  // Returns the mark of the data, for checkpoints (app/data/data_mark.h).
  const std::string& data_mark() const { return mark_; }

  // Collective. Records the GPU memory that this model's activations have taken, for the next run. No-op if no budget
  // depends on it.
  void learn_activations();
  // Local. Returns the bytes of the device's memory that libtorch holds; 0 on the CPU.
  std::int64_t torch_bytes() const;

  const TrainJob& job;
  World& world;
  const TrainSeams seams;
  const StopSignal* const stop;                 // null: signals are not watched
  const std::unique_ptr<Communicator> servers;  // null without servers
  const std::unique_ptr<Device> device;         // device of the units, on which the model computes
  RunFolder folder;
  StepTimeline timeline;
  Corpus corpus;
  std::unique_ptr<Task> task;
  std::optional<LearnedActivations> learned;  // absent if a budget is given, or the device is main memory
  RunMeter meter;
  Progress progress;
  RunLog log;
  SampleShares shares;
  RunState state;                // progress of the run; its series are those of the last save: `log` has the newest
  std::optional<Engine> engine;  // destroyed before its module; empty if there is a pipeline
  std::optional<PipelineEngine> pipeline;
  RunCheckpoints checkpoints;  // declared after `engine`: a save is destroyed before its engine
  RunHealth health;
  ServedReport served;  // events so far of a run with servers
  std::string places;   // places of its ranks (computing_place.h)

 private:
  const RunState& state_to_save();
  const std::string mark_;  // mark of the corpus
  std::optional<EvaluationResult> evaluate_weights(std::int64_t step, std::int64_t batches, bool averaged);
};

}  // namespace zero
