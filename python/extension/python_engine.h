// PythonEngine: what the class zerocpp.Engine holds. It owns an Attachment, and keeps the world alive.
//
// Destruction is Local: Python's collector may destroy an engine on one rank only. Only close() is Collective.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/utils/pybind.h>

#include "zero/torch/attach.h"

namespace zero::python {

using NamedTensor = std::pair<std::string, torch::Tensor>;

class PythonEngine {
 public:
  // Collective. `own_unit` and `fp32`: names of parameters, see ModelTensors.
  PythonEngine(std::shared_ptr<World> world, const ModelTensors& model, AttachOptions options);
  // Local. Abandons the engine if it is still attached: its parameters have no values afterwards.
  ~PythonEngine();
  PythonEngine(const PythonEngine&) = delete;
  PythonEngine& operator=(const PythonEngine&) = delete;

  // Throws ConfigError after close().
  Attachment& attachment();
  bool closed() const { return !attachment_.has_value(); }
  // Collective. `give_back`: the parameters get their values back. Without it they stay empty.
  void close(bool give_back);
  // Local. Ends the engine on this rank only.
  void abandon();

  World& world() { return *world_; }

 private:
  std::shared_ptr<World> world_;
  std::optional<Attachment> attachment_;
};

// Adds Engine, the scopes and the reports to the module.
void bind_engine(pybind11::module_& module);

}  // namespace zero::python
