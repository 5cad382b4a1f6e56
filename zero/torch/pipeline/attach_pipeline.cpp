#include "zero/torch/pipeline/attach_pipeline.h"

#include "zero/base/error/error.h"
#include "zero/torch/pipeline/pipelined_module.h"
#include "zero/torch/pipeline/section_options.h"

namespace zero {

PipelineEngine attach_pipeline(torch::nn::Module& module, World& world, const AttachOptions& options,
                               const PipelineOptions& pipeline) {
  return attach_pipeline(tensors_of(module), world, options, pipeline);
}

PipelineEngine attach_pipeline(ModelTensors model, World& world, const AttachOptions& options,
                               const PipelineOptions& pipeline) {
  model = with_quantised_buffers(std::move(model));
  require_same_pipeline(world.communicator(), pipeline, options, model);
  return PipelineEngine(std::make_unique<PipelinedModule>(std::move(model), world, options, pipeline));
}

PipelineEngine::PipelineEngine(std::unique_ptr<PipelinedModule> module) : module_(std::move(module)) {}
PipelineEngine::PipelineEngine(PipelineEngine&&) noexcept = default;
PipelineEngine& PipelineEngine::operator=(PipelineEngine&&) noexcept = default;
PipelineEngine::~PipelineEngine() {
  if (module_ != nullptr && module_->in_child()) keep_forever(std::move(module_));
}

std::vector<double> PipelineEngine::passes(const LossOfMicro& loss, double parts) {
  return module_->passes(loss, parts);
}
void PipelineEngine::prepare(const LossOfMicro& loss) {
  module_->prepare(loss);
}
std::vector<torch::Tensor> PipelineEngine::evaluate(const std::vector<std::int64_t>& key,
                                                    const std::function<std::vector<torch::Tensor>()>& function) {
  return module_->evaluate(key, function);
}
std::vector<torch::Tensor> PipelineEngine::evaluate(const std::function<std::vector<torch::Tensor>()>& function) {
  return module_->evaluate(std::nullopt, function);
}

StepReport PipelineEngine::step() {
  return step(module_->learning_rate());
}
StepReport PipelineEngine::step(double lr, const StepLimits& limits) {
  return step(StepRates{.lr = lr}, limits);
}
StepReport PipelineEngine::step(const StepRates& rates, const StepLimits& limits) {
  return module_->step(rates, limits);
}

void PipelineEngine::discard_gradients() {
  module_->discard_gradients();
}

AveragedScope PipelineEngine::averaged() {
  return module_->averaged();
}

void PipelineEngine::for_each_parameter(
    const std::function<void(const std::string& name, const torch::Tensor& tensor)>& visit, bool full_precision) {
  module_->for_each_parameter(visit, full_precision);
}
std::size_t PipelineEngine::visit_some(
    std::size_t first, const std::function<void(const std::string& name, const torch::Tensor& tensor)>& visit,
    bool full_precision) {
  return module_->visit_some(first, visit, full_precision);
}
void PipelineEngine::export_weights(const std::filesystem::path& path, bool full_precision,
                                    const std::set<std::string>& left_out) {
  module_->export_weights(path, full_precision, left_out);
}

void PipelineEngine::save(const std::filesystem::path& path) {
  module_->save(path, {});
}
LoadedCheckpoint PipelineEngine::load(const std::filesystem::path& path) {
  return module_->load(path);
}

void PipelineEngine::detach() {
  module_->detach();
}
void PipelineEngine::abandon() {
  module_->abandon();
}

const Sections& PipelineEngine::sections() const {
  return module_->sections();
}
const PipelinePlan& PipelineEngine::plan() const {
  return module_->plan();
}
std::string PipelineEngine::text() const {
  return module_->text();
}
EngineReport PipelineEngine::report() const {
  return module_->report();
}

}  // namespace zero
