#include "zero/torch/pipeline/attach_pipeline.h"

#include "zero/base/error/error.h"
#include "zero/torch/pipeline/pipelined_module.h"

namespace zero {

PipelineAttachment attach_pipeline(torch::nn::Module& module, World& world, const EngineOptions& options,
                                   const PipelineOptions& pipeline) {
  return attach_pipeline(tensors_of(module), world, options, pipeline);
}

PipelineAttachment attach_pipeline(ModelTensors model, World& world, const EngineOptions& options,
                                   const PipelineOptions& pipeline) {
  return PipelineAttachment(std::make_unique<PipelinedModule>(std::move(model), world, options, pipeline));
}

PipelineAttachment::PipelineAttachment(std::unique_ptr<PipelinedModule> module) : module_(std::move(module)) {}
PipelineAttachment::PipelineAttachment(PipelineAttachment&&) noexcept = default;
PipelineAttachment& PipelineAttachment::operator=(PipelineAttachment&&) noexcept = default;
PipelineAttachment::~PipelineAttachment() = default;

std::vector<double> PipelineAttachment::passes(const LossOfMicro& loss) {
  return module_->passes(loss);
}

StepReport PipelineAttachment::step() {
  return module_->step(module_->learning_rate(), {});
}
StepReport PipelineAttachment::step(double lr, const StepLimits& limits) {
  return step(StepRates{.lr = lr}, limits);
}
StepReport PipelineAttachment::step(const StepRates& rates, const StepLimits& limits) {
  return module_->step(rates, limits);
}

void PipelineAttachment::for_each_parameter(
    const std::function<void(const std::string& name, const torch::Tensor& tensor)>& visit, bool full_precision) {
  module_->for_each_parameter(visit, full_precision);
}

void PipelineAttachment::detach() {
  module_->detach();
}

const Sections& PipelineAttachment::sections() const {
  return module_->sections();
}
const PipelinePlan& PipelineAttachment::plan() const {
  return module_->plan();
}
std::string PipelineAttachment::text() const {
  return module_->text();
}

}  // namespace zero
