// RunRanks, RunData, RunModel, RunRecords: what a run computes on, learns from, trains, and writes about its steps.
//
//   run.ranks.comm(); run.data.corpus; run.model.engine; run.records.log       // run.h
//
// Their constructors write nothing, and allocate nothing for the model. Local, unless a function says otherwise.
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
#include "app/train/engine/engine_of_run.h"
#include "app/train/folder/run_folder.h"
#include "app/train/machine/torch_memory.h"
#include "app/train/run/parts/run_log.h"
#include "app/train/run/parts/run_meter.h"
#include "app/train/tasks/task.h"
#include "app/train/train_job.h"
#include "app/train/train_seams.h"
#include "app/train/watch/sample_shares.h"
#include "app/train/watch/stop_signal.h"

namespace zero {

struct TrainOutput {
  std::ostream& out;  // rank 0 prints here
  ProgressStyle style;
  const StopSignal* stop = nullptr;  // null: signals are not watched
};

// The ranks of a run, and the device of this rank.
struct RunRanks {
  // Collective over the run if it has servers. Throws ConfigError for a device that cannot be used.
  RunRanks(const TrainJob& job, World& ranks, const TrainSeams& in_place);

  bool is_first() const { return world.rank() == 0; }
  // The ranks that hold the run: all ranks, or its servers. They evaluate, save and report together.
  Communicator& comm() const { return servers == nullptr ? world.communicator() : *servers; }

  World& world;
  const TrainSeams seams;
  const std::unique_ptr<Communicator> servers;  // null without servers
  const std::unique_ptr<Device> device;         // device of the units, on which the model computes
  const int num_computing;                      // ranks that compute different samples
  std::string places;                           // places of the ranks (computing_place.h)
};

// The samples of a run, and this rank's share of them.
struct RunData {
  // Opens the data. Throws ConfigError for data that cannot be read, or that does not fit the model.
  RunData(const TrainJob& job, const Communicator& comm);

  Corpus corpus;
  const std::string mark;  // mark of the corpus, for checkpoints (app/data/data_mark.h)
  SampleShares shares;
};

// The model of a run, and the engine that trains it: one engine of the whole model, or a pipeline.
struct RunModel {
  RunModel(const TrainJob& job, const RunRanks& ranks, const SampleShape& shape);

  EngineOfRun trained() { return pipeline ? EngineOfRun(*pipeline) : EngineOfRun(*engine); }

  std::unique_ptr<Task> task;
  TorchMemory torch_memory;
  std::optional<Engine> engine;  // destroyed before its module; empty if there is a pipeline
  std::optional<PipelineEngine> pipeline;
};

// What a run measures, prints and logs.
struct RunRecords {
  RunRecords(const TrainJob& job, const RunRanks& ranks, Task& task, const RunFolder& folder,
             const TrainOutput& output);

  RunMeter meter;
  Progress progress;
  RunLog log;
  ServedReport served;  // events so far of a run with servers
};

}  // namespace zero
