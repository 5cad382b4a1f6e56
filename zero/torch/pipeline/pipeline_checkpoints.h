// PipelineCheckpoints: saves all sections of a model as one checkpoint, and loads any checkpoint of the model.
//
//   PipelineCheckpoints checkpoints(run, plan, names, modules);
//   auto save = checkpoints.begin_save("runs/x/checkpoints/step-00000500", contents, SaveMode::kSync);
//   save->wait();
//   LoadedCheckpoint loaded = checkpoints.load("runs/x/checkpoints/step-00000500");
//
// The checkpoint has the format of every other checkpoint. So a run without a pipeline, or with another number of
// sections, loads it, and load() also reads the checkpoints of such runs. Collective over the run; between steps.
// Throws what PipelineSave and CheckpointLoad throw, on every rank. If a load fails after all checks, load again before
// the states are used.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "zero/checkpoint/read/loaded_checkpoint.h"
#include "zero/checkpoint/save.h"
#include "zero/plan/pipeline/pipeline.h"
#include "zero/torch/attached_module.h"
#include "zero/torch/pipeline/pipeline_save.h"

namespace zero {

class PipelineCheckpoints {
 public:
  // `homes`: the sections with parameters. `names`: of all parameters of the model. `modules`: by section; null if
  // another position has the section, or if the section has no parameter. `run` and the modules must outlive the
  // object.
  PipelineCheckpoints(Communicator& run, const PipelinePlan& plan, std::vector<int> homes,
                      std::vector<std::string> names, std::vector<AttachedModule*> modules);

  // `contents`: the extras of a rank are stored in the file of its first section. With kAsync the states are copied
  // first, if every machine has memory for the copies.
  std::unique_ptr<PipelineSave> begin_save(const std::filesystem::path& path, SaveContents contents, SaveMode mode);
  // The result has the extras of this rank's first section.
  LoadedCheckpoint load(const std::filesystem::path& path);

 private:
  Communicator& run_;
  const int num_positions_;
  std::vector<int> homes_;  // in the order of their positions, then of their numbers: rank 0's section is first
  std::vector<std::string> names_;
  std::vector<AttachedModule*> modules_;
};

}  // namespace zero
