// EngineOfRun: the engine with which a run trains: one engine of the whole model, or a pipeline.
//
//   void save(EngineOfRun engine);
//   save(*run.model.engine);                 // both are converted
//   save(*run.model.pipeline);
//
// A handle: destroy it before its engine. Functions are those of Engine and EngineControl, and Collective where those
// are. Functions that a pipeline does not have throw InternalError; check_pipeline() refuses their keys.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "zero/torch/attach.h"
#include "zero/torch/engine_control.h"
#include "zero/torch/pipeline/attach_pipeline.h"

namespace zero {

class EngineOfRun {
 public:
  EngineOfRun(Engine& engine) : engine_(&engine) {}                // NOLINT(google-explicit-constructor)
  EngineOfRun(PipelineEngine& pipeline) : pipeline_(&pipeline) {}  // NOLINT(google-explicit-constructor)

  Engine& engine() const;                                 // of the whole model
  PipelineEngine* pipeline() const { return pipeline_; }  // null: there is no pipeline

  StepReport step(double lr, const StepLimits& limits) const;
  LoadedCheckpoint load(const std::filesystem::path& path) const;
  void for_each_parameter(const std::function<void(const std::string&, const torch::Tensor&)>& visit,
                          bool full_precision = false) const;
  void abandon() const;
  EngineReport report() const;
  AveragedScope averaged() const;
  const std::vector<ParamSpec>& parameters() const;
  ReplicaCheck compare_replicas() const;
  void finish_updates() const;  // no-op for a pipeline, which delays none
  WorkSeconds take_work_seconds() const;

 private:
  Engine* engine_ = nullptr;
  PipelineEngine* pipeline_ = nullptr;
};

}  // namespace zero
