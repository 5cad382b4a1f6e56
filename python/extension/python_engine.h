// PythonEngine: what the class zerocpp.Engine holds. It owns an Engine, and keeps the world alive.
//
// Destruction is Local: Python's collector may destroy an engine on one rank only. Only close() is Collective.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/utils/pybind.h>

#include "zero/torch/attach.h"

namespace zero::python {

using NamedTensor = std::pair<std::string, torch::Tensor>;

// Local. `own_unit` and `fp32`: names of parameters and buffers, see ModelTensors.
ModelTensors tensors_from(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
                          const std::set<std::string>& own_unit, const std::set<std::string>& fp32);

class PythonEngine {
 public:
  // Collective.
  PythonEngine(std::shared_ptr<World> world, const ModelTensors& model, AttachOptions options);
  // Local. Abandons the engine if it is still attached: its parameters have no values afterwards.
  ~PythonEngine();
  PythonEngine(const PythonEngine&) = delete;
  PythonEngine& operator=(const PythonEngine&) = delete;

  // Throws ConfigError after close().
  Engine& attachment();
  bool closed() const { return !attachment_.has_value(); }
  // Collective. `give_back`: the parameters get their values back. Without it they stay empty.
  void close(bool give_back);
  // Local. Ends the engine on this rank only.
  void abandon();

  World& world() { return *world_; }
  const AttachOptions& options() const { return options_; }

 private:
  std::shared_ptr<World> world_;
  AttachOptions options_;  // as given
  std::optional<Engine> attachment_;
};

// Adds Engine, the scopes and the reports to the module.
void bind_engine(pybind11::module_& module);

}  // namespace zero::python
