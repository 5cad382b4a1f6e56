#include "app/train/engine/engine_of_run.h"

#include "zero/base/error/check.h"
#include "zero/torch/pipeline/pipelined_module.h"

namespace zero {

Engine& EngineOfRun::engine() const {
  ZERO_CHECK(engine_ != nullptr, "a pipeline has no engine of the whole model");
  return *engine_;
}

StepReport EngineOfRun::step(double lr, const StepLimits& limits) const {
  return pipeline_ != nullptr ? pipeline_->step(lr, limits) : engine_->step(lr, limits);
}

LoadedCheckpoint EngineOfRun::load(const std::filesystem::path& path) const {
  return pipeline_ != nullptr ? pipeline_->load(path) : engine_->load(path);
}

void EngineOfRun::for_each_parameter(const std::function<void(const std::string&, const torch::Tensor&)>& visit,
                                     bool full_precision) const {
  pipeline_ != nullptr ? pipeline_->for_each_parameter(visit, full_precision)
                       : engine_->for_each_parameter(visit, full_precision);
}

void EngineOfRun::abandon() const {
  pipeline_ != nullptr ? pipeline_->module().abandon() : engine_->abandon();
}

AveragedScope EngineOfRun::averaged() const {
  return pipeline_ != nullptr ? pipeline_->averaged() : engine_->averaged();
}

EngineReport EngineOfRun::report() const {
  return pipeline_ != nullptr ? pipeline_->report() : engine_->report();
}

const std::vector<ParamSpec>& EngineOfRun::parameters() const {
  return pipeline_ != nullptr ? pipeline_->module().specs() : engine_->parameters();
}

ReplicaCheck EngineOfRun::compare_replicas() const {
  return pipeline_ != nullptr ? pipeline_->module().compare_replicas() : engine_->control().compare_replicas();
}

void EngineOfRun::finish_updates() const {
  if (engine_ != nullptr) engine_->control().finish_updates();
}

WorkSeconds EngineOfRun::take_work_seconds() const {
  return pipeline_ != nullptr ? pipeline_->module().take_work_seconds() : engine_->control().take_work_seconds();
}

}  // namespace zero
