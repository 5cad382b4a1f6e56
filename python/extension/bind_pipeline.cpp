// The class Pipeline of the module _C, and together() and checkpoint() for functions of Python.
//
// passes() and others release the GIL, and take it while they call the program's function. An exception of that
// function leaves them unchanged. Other ranks notice when this rank ends, as with attach().
#include <functional>

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <torch/csrc/autograd/python_variable.h>

#include "zero/torch/activations/checkpoint.h"
#include "zero/torch/pipeline/forward/absent_tensor.h"
#include "zero/torch/pipeline/forward/together.h"
#include "zero/torch/pipeline/pipelined_module.h"
#include "zero/torch/seam/operator_taker.h"

#include "python/extension/options.h"
#include "python/extension/python_engine.h"

namespace py = pybind11;

namespace zero::python {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;
using Tensors = std::vector<at::Tensor>;

// `function` outlives the result, which is called without the GIL.
PipelineEngine::LossOfMicro loss_function(const py::function& function) {
  return [&function](int micro) {
    const py::gil_scoped_acquire gil;
    const py::object loss = function(micro);
    if (!THPVariable_Check(loss.ptr()))
      throw ConfigError("passes", py::cast<std::string>(py::str(py::type::handle_of(loss))),
                        "the function must return the loss of a micro-batch, a tensor with one number",
                        "return for example model(**batch).loss");
    return py::cast<at::Tensor>(loss);
  };
}

Tensors call(const py::object& function, const Tensors& inputs) {
  const py::gil_scoped_acquire gil;
  return py::cast<Tensors>(function(inputs));
}

// A function that autograd keeps. Whoever drops it last may not hold the GIL.
std::shared_ptr<py::object> kept(py::object function) {
  return {new py::object(std::move(function)), [](const py::object* dropped) {
            if (Py_IsInitialized() == 0) return;
            const py::gil_scoped_acquire gil;
            delete dropped;
          }};
}

// The parameter with number `first`; and the number that comes next, or 0.
std::pair<std::size_t, std::vector<NamedTensor>> some_parameters(PythonPipeline& self, std::size_t first,
                                                                 bool full_precision) {
  const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
  std::vector<NamedTensor> found;
  const std::size_t next = self.attachment().visit_some(
      first, [&](const std::string& name, const torch::Tensor& tensor) { found.emplace_back(name, tensor.clone()); },
      full_precision);
  return {next, std::move(found)};
}

std::map<std::string, double> work_seconds(PythonPipeline& self) {
  const WorkSeconds work = self.attachment().module().take_work_seconds();
  return {{"gather", work.gather}, {"reduce", work.reduce}, {"update", work.update}, {"wait", work.wait}};
}

Tensors together_in_python(const py::function& function, const Tensors& inputs, const Tensors& like) {
  const py::gil_scoped_release no_gil;
  return zero::together(
      std::function<Tensors(const Tensors&)>([&](const Tensors& given) { return call(function, given); }), inputs,
      like);
}

Tensors checkpoint_in_python(py::object function, const Tensors& inputs) {
  const std::shared_ptr<py::object> own = kept(std::move(function));
  const py::gil_scoped_release no_gil;
  return zero::checkpoint([own](const Tensors& given) { return call(*own, given); }, inputs);
}

}  // namespace

void bind_pipeline(py::module_& module) {
  py::class_<PythonPipeline, std::shared_ptr<PythonPipeline>> pipeline(module, "Pipeline");
  pipeline
      .def(py::init([](std::shared_ptr<World> world, const std::vector<NamedTensor>& parameters,
                       const std::vector<NamedTensor>& buffers, const std::set<std::string>& own_unit,
                       const std::set<std::string>& fp32, bool keep_buffers, const py::dict& options,
                       const py::dict& how) {
        AttachOptions given = options_from(options);
        const PipelineOptions cut = pipeline_options_from(how);
        const py::gil_scoped_release no_gil;
        return std::make_shared<PythonPipeline>(
            std::move(world), tensors_from(parameters, buffers, own_unit, fp32, keep_buffers), std::move(given), cut);
      }))
      .def("passes",
           [](PythonPipeline& self, const py::function& loss, double parts) {
             const py::gil_scoped_release no_gil;
             const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
             return self.attachment().passes(loss_function(loss), parts);
           })
      .def("prepare",
           [](PythonPipeline& self, const py::function& loss) {
             const py::gil_scoped_release no_gil;
             const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
             self.attachment().prepare(loss_function(loss));
           })
      .def("evaluate",
           [](PythonPipeline& self, const std::optional<std::vector<std::int64_t>>& key, const py::function& function) {
             const py::gil_scoped_release no_gil;
             const ThreadGate::Entry entry(self.world().gate(), self.world().rank());
             const auto run = [&function] {
               const py::gil_scoped_acquire gil;
               return py::cast<Tensors>(function());
             };
             return key ? self.attachment().evaluate(*key, run) : self.attachment().evaluate(run);
           })
      .def("some_parameters", &some_parameters, NoGil())
      .def("work_seconds", &work_seconds)
      .def("text", [](PythonPipeline& self) { return self.attachment().text(); });
  bind_shared(pipeline);
  module.def("together", &together_in_python);
  module.def("checkpoint", &checkpoint_in_python);
  // Whether a pass runs on this thread, or learns its operators.
  module.def("in_pass", [] { return OperatorTaker::current() != nullptr; });
  module.def("is_absent", [](const torch::Tensor& tensor) { return absent_value(tensor).has_value(); });
}

}  // namespace zero::python
