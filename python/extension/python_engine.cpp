#include "python/extension/python_engine.h"

#include "zero/base/error/log.h"

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
    : world_(std::move(world)), options_(std::move(options)) {
  attachment_.emplace(attach(model, *world_, options_));
}

PythonEngine::~PythonEngine() {
  if (attachment_) abandon();
}

Engine& PythonEngine::attachment() {
  if (!attachment_) throw ConfigError("engine", "closed", "this engine has ended", "attach the model again");
  return *attachment_;
}

void PythonEngine::close(bool give_back) {
  if (!attachment_) return;
  // An exception in close() leaves an engine that only abandon() can end.
  Engine ending = std::move(*attachment_);
  attachment_.reset();
  if (!give_back) ending.abandon();
  ending.detach();
}

// An Engine that is destroyed while an exception unwinds waits for nobody, and leaves its parameters empty.
void PythonEngine::abandon() {
  struct Unwinding {};
  if (!attachment_) return;
  ZERO_LOG(info, "an engine is destroyed without close(): its parameters have no values");
  try {
    const Engine dying = std::move(*attachment_);
    attachment_.reset();
    throw Unwinding{};
  } catch (const Unwinding&) {
  }
}

}  // namespace zero::python
