#include "python/extension/python_engine.h"

#include "zero/torch/pipeline/pipelined_module.h"

namespace zero::python {

ModelTensors tensors_from(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
                          const std::set<std::string>& own_unit, const std::set<std::string>& fp32, bool keep_buffers) {
  ModelTensors model;
  for (const auto& [name, tensor] : parameters)
    model.parameters.push_back(
        {.name = name, .tensor = tensor, .own_unit = own_unit.contains(name), .stays_fp32 = fp32.contains(name)});
  for (const auto& [name, tensor] : buffers)
    model.buffers.push_back(
        {.name = name, .tensor = tensor, .becomes_fp32 = fp32.contains(name), .keeps_type = keep_buffers});
  return model;
}

PythonEngine::PythonEngine(std::shared_ptr<World> world, const ModelTensors& model, AttachOptions options,
                           WeightSource weights)
    : HeldEngine(std::move(world), std::move(options)) {
  AttachOptions with_weights = this->options();
  with_weights.weights = std::move(weights);
  hold(attach(model, this->world(), std::move(with_weights)));
}

std::unique_ptr<RunningSave> PythonEngine::begin_save(const std::string& path, SaveContents contents, SaveMode mode) {
  return attachment().control().begin_save(path, std::move(contents), mode);
}

PythonPipeline::PythonPipeline(std::shared_ptr<World> world, ModelTensors model, AttachOptions options,
                               const PipelineOptions& pipeline)
    : HeldEngine(std::move(world), std::move(options)) {
  hold(attach_pipeline(std::move(model), this->world(), this->options(), pipeline));
}

std::unique_ptr<RunningSave> PythonPipeline::begin_save(const std::string& path, SaveContents contents, SaveMode mode) {
  return attachment().module().begin_save(path, std::move(contents), mode);
}

pybind11::dict dict_of(const LoadedCheckpoint& loaded) {
  pybind11::dict found;
  found["steps"] = loaded.manifest.steps;
  found["skipped"] = loaded.manifest.skipped;
  found["notes"] = loaded.manifest.run;
  return found;
}

}  // namespace zero::python
