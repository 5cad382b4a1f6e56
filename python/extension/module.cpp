// zerocpp._C: the extension module. The package's Python files are its only callers; users write `import zerocpp`.
#include <chrono>
#include <cstdlib>
#include <variant>

#include <pybind11/stl.h>

#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include "zero/base/numbers/number_range.h"
#include "zero/comm/collectives.h"
#include "zero/comm/transport/world.h"
#include "zero/memory/account/host_memory.h"
#include "zero/torch/activations/large_blocks.h"
#include "zero/torch/deferred/deferred.h"

#include "python/extension/c10d_link.h"
#include "python/extension/fork_lock.h"
#include "python/extension/log_queue.h"
#include "python/extension/model_plan.h"
#include "python/extension/options.h"
#include "python/extension/python_engine.h"
#include "python/extension/python_errors.h"

namespace py = pybind11;

namespace zero::python {
namespace {

std::chrono::milliseconds milliseconds_of(double seconds) {
  require_number("timeout", seconds, kAboveZero, "give seconds, for example 60");
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

void bind_world(py::module_& module) {
  py::class_<World, std::shared_ptr<World>>(module, "World", "The ranks of this run.")
      .def_property_readonly("rank", &World::rank, "Local. The number of this rank, from 0.")
      .def_property_readonly("size", &World::size, "Local. The number of ranks.")
      .def_property_readonly("local_size", &World::local_size, "Local. The number of ranks on this machine.")
      .def_property_readonly(
          "transport", [](World& self) { return std::string(self.communicator().transport()); },
          "Local. The name of the transport, such as shared_memory.")
      .def_property_readonly("source", &World::source,
                             "Local. The starter of the ranks: torchrun, Open MPI, one process ...")
      .def(
          "barrier",
          [](World& self) {
            const ThreadGate::Entry entry(self.gate(), self.rank());
            self.communicator().barrier({.control = true}).wait();
          },
          py::call_guard<py::gil_scoped_release>(), "Collective. Returns when every rank has called it.")
      .def(
          "gather_text",
          [](World& self, const std::string& text) { return all_gather_text(self.communicator(), text); },
          py::call_guard<py::gil_scoped_release>(), "Collective. Returns each rank's text, in rank order.")
      .def(
          "keep_flight_in", [](World& self, const std::string& folder) { self.keep_flight_in(folder); },
          "Local. Sets the folder for this rank's flight record.");
  module.def(
      "world_from_environment",
      [](const std::string& transport, double timeout) {
        return std::make_shared<World>(
            World::from_environment({.transport = transport, .timeout = milliseconds_of(timeout)}));
      },
      py::call_guard<py::gil_scoped_release>());
  module.def(
      "world_over_group",
      [](const std::string& name, double timeout) {
        return std::make_shared<World>(world_over(name, milliseconds_of(timeout)));
      },
      py::call_guard<py::gil_scoped_release>());
  module.def("has_cpu_backend", &has_cpu_backend);
  module.def("ranks_of_environment", [] { return detect_ranks({}, std::getenv).world; });
}

// deferred(): begins with __enter__, ends with __exit__.
class Deferred {
 public:
  explicit Deferred(std::uint64_t seed) : seed_(seed) {}
  void enter() { scope_ = std::make_unique<detail::RecordingScope>(seed_); }
  void exit() { scope_.reset(); }

 private:
  std::uint64_t seed_;
  std::unique_ptr<detail::RecordingScope> scope_;
};

void bind_deferred(py::module_& module) {
  py::class_<Deferred>(module, "Deferred")
      .def(py::init<std::uint64_t>())
      .def("__enter__", &Deferred::enter)
      .def("__exit__", [](Deferred& self, const py::args&) { self.exit(); });
  module.def("is_deferred", &is_deferred);
}

}  // namespace
}  // namespace zero::python

PYBIND11_MODULE(_C, module) {
  using namespace zero::python;
  set_up_errors(module);
  guard_forks();
  bind_world(module);
  bind_engine(module);
  bind_pipeline(module);
  bind_weights(module);
  bind_deferred(module);
  bind_plan(module);
  bind_log(module);
  module.def("option_names", &option_names);
  module.def("leaves_of_rank", &leaves_of_rank);
  module.def(
      "keep_memory",
      [] {
        zero::keep_heap();
        zero::keep_large_blocks();
      },
      "Local. Keeps large blocks of freed memory for the next step, as `zero train` does; call it before the model is "
      "made. The process keeps its largest size.");
  module.attr("built_for_torch") = TORCH_VERSION;
  module.attr("version") = ZERO_VERSION;
}
