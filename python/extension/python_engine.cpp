#include "python/extension/python_engine.h"

#include "zero/base/error/check.h"

namespace zero::python {

ModelTensors tensors_from(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
                          const std::set<std::string>& own_unit, const std::set<std::string>& fp32) {
  ModelTensors model;
  for (const auto& [name, tensor] : parameters)
    model.parameters.push_back(
        {.name = name, .tensor = tensor, .own_unit = own_unit.contains(name), .stays_fp32 = fp32.contains(name)});
  for (const auto& [name, tensor] : buffers)
    model.buffers.push_back({.name = name, .tensor = tensor, .becomes_fp32 = fp32.contains(name)});
  return model;
}

PythonEngine::PythonEngine(std::shared_ptr<World> world, const ModelTensors& model, AttachOptions options)
    : HeldEngine(std::move(world), std::move(options)) {
  hold(attach(model, this->world(), this->options()));
}

void PythonEngine::begin_save(const std::string& path, const std::map<std::string, std::string>& notes, SaveMode mode) {
  ZERO_CHECK(save_ == nullptr, "a save begins while another one is running");
  save_ = attachment().control().begin_save(path, {.run = notes}, mode);
  if (mode == SaveMode::kSync) wait_for_save();
}

bool PythonEngine::poll_save() {
  return advance([](CheckpointSave& save) { return save.poll(); });
}

void PythonEngine::wait_for_save() {
  advance([](CheckpointSave& save) {
    save.wait();
    return true;
  });
}

bool PythonEngine::advance(const std::function<bool(CheckpointSave&)>& ends) {
  if (save_ == nullptr) return true;
  const ThreadGate::Entry entry(world().gate(), world().rank());
  try {
    if (!ends(*save_)) return false;
  } catch (const IoError&) {
    save_ = nullptr;
    throw;
  }
  save_ = nullptr;
  return true;
}

void PythonEngine::close(bool give_back) {
  save_ = nullptr;
  HeldEngine::close(give_back);
}

void PythonEngine::abandon() {
  save_ = nullptr;
  HeldEngine::abandon();
}

PythonPipeline::PythonPipeline(std::shared_ptr<World> world, ModelTensors model, AttachOptions options,
                               const PipelineOptions& pipeline)
    : HeldEngine(std::move(world), std::move(options)) {
  hold(attach_pipeline(std::move(model), this->world(), this->options(), pipeline));
}

pybind11::dict dict_of(const LoadedCheckpoint& loaded) {
  pybind11::dict found;
  found["steps"] = loaded.manifest.steps;
  found["skipped"] = loaded.manifest.skipped;
  found["notes"] = loaded.manifest.run;
  return found;
}

}  // namespace zero::python
