// PythonEngine and PythonPipeline: what the classes zerocpp.Engine and zerocpp.PipelineEngine hold.
//
// bind_shared() binds the functions that both have.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "zero/torch/attach.h"
#include "zero/torch/engine_control.h"
#include "zero/torch/pipeline/attach_pipeline.h"

#include "python/extension/held_engine.h"

namespace zero::python {

using NamedTensor = std::pair<std::string, torch::Tensor>;

// Local. `own_unit` and `fp32`: names of parameters and buffers, see ModelTensors. `keep_buffers`: each keeps its type.
ModelTensors tensors_from(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
                          const std::set<std::string>& own_unit, const std::set<std::string>& fp32,
                          bool keep_buffers = false);

class PythonEngine : public HeldEngine<Engine> {
 public:
  // Collective. `weights`: see AttachOptions::weights; used only here.
  PythonEngine(std::shared_ptr<World> world, const ModelTensors& model, AttachOptions options, WeightSource weights);

  std::unique_ptr<RunningSave> begin_save(const std::string& path, SaveContents contents, SaveMode mode);
};

class PythonPipeline : public HeldEngine<PipelineEngine> {
 public:
  // Collective. With a pipeline the first passes() attaches the model.
  PythonPipeline(std::shared_ptr<World> world, ModelTensors model, AttachOptions options,
                 const PipelineOptions& pipeline);

  std::unique_ptr<RunningSave> begin_save(const std::string& path, SaveContents contents, SaveMode mode);
};

// A scope of the library as a context manager. `begin` begins it, and returns the function that ends it and may throw.
// Both run with the GIL released. A scope that was never left does not end.
class Scope {
 public:
  using End = std::function<void()>;
  explicit Scope(std::function<End()> begin) : begin_(std::move(begin)) {}
  void enter() { end_ = begin_(); }
  void exit() {
    if (const End end = std::exchange(end_, nullptr)) end();
  }

 private:
  std::function<End()> begin_;
  End end_;
};

// Returns the end of a scope of the library. Its destructor runs in exit(), and may throw there.
template <typename Ended>
Scope::End end_of(Ended* scope) {
  return [scope] { delete scope; };
}

pybind11::dict dict_of(const LoadedCheckpoint& loaded);

template <typename Held>
StepReport take_step(Held& self, double lr, const std::vector<double>& by_group,
                     const std::vector<double>& decay_by_group, std::optional<double> loss, double max_loss,
                     double max_grad_norm, bool fewer_micro_batches, const std::vector<double>& leaf_losses) {
  const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
  return self.attachment().step({.lr = lr, .by_group = by_group, .decay_by_group = decay_by_group},
                                {.loss = loss,
                                 .leaf_losses = leaf_losses,
                                 .max_loss = max_loss,
                                 .max_grad_norm = max_grad_norm,
                                 .fewer_micro_batches = fewer_micro_batches});
}

// Tensors are copies: a visited tensor may be memory of the engine.
template <typename Held>
void visit_parameters(Held& self, const std::function<void(const std::string&, const torch::Tensor&)>& visit,
                      bool full_precision) {
  const pybind11::gil_scoped_release no_gil;
  const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
  self.attachment().for_each_parameter(
      [&](const std::string& name, const torch::Tensor& tensor) {
        const torch::Tensor copy = tensor.clone();
        const pybind11::gil_scoped_acquire gil;
        visit(name, copy);
      },
      full_precision);
}

template <typename Held>
void save_from(Held& self, const std::string& path, const std::map<std::string, std::string>& notes, bool blocking) {
  const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
  const SaveMode mode = blocking ? SaveMode::kSync : SaveMode::kAsync;
  self.save(mode, [&] { return self.begin_save(path, {.run = notes}, mode); });
}

template <typename Held>
pybind11::dict load_into(Held& self, const std::string& path) {
  LoadedCheckpoint loaded;
  {
    const pybind11::gil_scoped_release no_gil;
    const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
    loaded = self.attachment().load(path);
  }
  return dict_of(loaded);
}

// Binds what Engine and PipelineEngine share.
template <typename Held>
void bind_shared(pybind11::class_<Held, std::shared_ptr<Held>>& bound) {
  using NoGil = pybind11::call_guard<pybind11::gil_scoped_release>;
  bound.def("step", &take_step<Held>, NoGil())
      .def(
          "discard_gradients",
          [](Held& self) {
            const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
            self.attachment().discard_gradients();
          },
          NoGil())
      .def("averaged",
           [](std::shared_ptr<Held> self) {
             return std::make_unique<Scope>(
                 [self = std::move(self)] { return end_of(new AveragedScope(self->attachment().averaged())); });
           })
      .def("visit_parameters", &visit_parameters<Held>)
      .def(
          "export_weights",
          [](Held& self, const std::string& path, bool full_precision, const std::set<std::string>& left_out) {
            const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
            self.attachment().export_weights(path, full_precision, left_out);
          },
          NoGil())
      .def("save", &save_from<Held>, NoGil())
      .def("poll_save", &Held::poll_save, NoGil())
      .def("wait_for_save", &Held::wait_for_save, NoGil())
      .def("load", &load_into<Held>)
      .def(
          "report", [](Held& self) { return self.attachment().report(); }, NoGil())
      .def_property_readonly("closed", &Held::closed)
      .def("close", &Held::close, NoGil())
      .def("abandon", &Held::abandon, NoGil());
}

// Local. Returns a source whose values `read` returns by parameter name: contiguous, in fp32, on the CPU. `read` must
// outlive the source, which takes the GIL while it is called.
WeightSource source_of(const pybind11::function& read);

// Add Engine, the scopes and the reports to the module; Pipeline; and WeightFiles.
void bind_engine(pybind11::module_& module);
void bind_pipeline(pybind11::module_& module);
void bind_weights(pybind11::module_& module);

}  // namespace zero::python
