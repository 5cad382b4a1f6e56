// The classes Engine, scopes and reports of the module _C.
#include <cctype>
#include <set>
#include <string>

#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "zero/engine/options/leaf_options.h"
#include "zero/torch/engine_control.h"
#include "zero/torch/seam/gradient_watch.h"
#include "zero/torch/seam/parameter_storage.h"

#include "python/extension/model_plan.h"
#include "python/extension/options.h"
#include "python/extension/python_engine.h"

namespace py = pybind11;

namespace zero::python {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;

void bind_scopes(py::module_& module) {
  py::class_<Scope>(module, "Scope", "A scope of an engine: begins and ends with `with`.")
      .def("__enter__", &Scope::enter, NoGil())
      .def("__exit__", [](Scope& self, const py::args&) {
        const py::gil_scoped_release no_gil;
        self.exit();
      });
}

std::map<std::string, std::int64_t> dict_of(const MemoryCount& count) {
  std::map<std::string, std::int64_t> bytes{{"total", count.total()}};
  for (const MemoryTag tag : kAllMemoryTags) bytes.emplace(name_of(tag), count[tag]);
  return bytes;
}

// Binds the bytes on each tier: `memory`, `peak_memory` and `peak_memory_bytes` on the device, `host_memory`,
// `peak_host_memory` and `peak_host_memory_bytes` on the host. A tier without peaks in report.json has none here.
void bind_tiers(py::class_<EngineReport>& report) {
  for (const Tier tier : kAllTiers) {
    const TierFacts& facts = facts_of(tier);
    const bool on_device = tier == Tier::kDevice;
    const std::string memory = on_device ? "memory" : std::string(facts.name) + "_memory";
    std::string begin(facts.phrase);  // of a sentence
    begin.front() = static_cast<char>(std::toupper(begin.front()));
    begin += on_device ? ", just before the first update of the last step, by tag."
                       : ", at the same time as `memory`, by tag.";
    report.def_property_readonly(
        memory.c_str(), [tier](const EngineReport& self) { return dict_of(self.memory[tier]); }, begin.c_str());
    if (facts.peak_key.empty()) continue;
    report.def_property_readonly(("peak_" + memory).c_str(),
                                 [tier](const EngineReport& self) { return dict_of(self.peak_memory[tier]); },
                                 fmt::format("Largest bytes {}, by tag.", facts.phrase).c_str());
    report.def_property_readonly(("peak_" + memory + "_bytes").c_str(),
                                 [tier](const EngineReport& self) { return self.peak_memory_bytes[tier]; },
                                 fmt::format("Largest sum over tags, {}.", facts.phrase).c_str());
  }
}

void bind_reports(py::module_& module) {
  py::class_<StepReport>(module, "StepReport", "The result of one step. Its values are Local.")
      .def_readonly("step", &StepReport::step, "Updates so far; skipped steps do not count.")
      .def_readonly("grad_norm", &StepReport::grad_norm, "Norm of the mean gradient over ranks, before clipping.")
      .def_readonly("skipped", &StepReport::skipped, "Whether nothing was updated.")
      .def_readonly("bad_parameter", &StepReport::bad_parameter,
                    "The first parameter whose gradient is not finite, or an empty string.")
      .def_property_readonly(
          "reason", [](const StepReport& self) { return std::string(name_of(self.reason)); },
          "Why the step was skipped: overflow, not finite, loss spike or norm spike.")
      .def_readonly("loss", &StepReport::loss, "Mean of the given losses over ranks; NaN without them.")
      .def_readonly("loss_scale", &StepReport::loss_scale, "The loss scale of this step; None without one.")
      .def("__repr__", [](const StepReport& self) {
        return fmt::format("StepReport(step={}, grad_norm={:.6g}{})", self.step, self.grad_norm,
                           self.skipped ? fmt::format(", skipped: {}", name_of(self.reason)) : "");
      });
  py::class_<EngineReport> report(
      module, "Report", "Bytes and times of this rank; its values are Local. Sizes are in bytes, times in seconds.");
  bind_tiers(report);
  report.def_readonly("world", &EngineReport::world, "Number of ranks.")
      .def_readonly("rank", &EngineReport::rank, "Number of this rank, from 0.")
      .def_readonly("stage", &EngineReport::stage, "ZeRO stage, 0 to 3.")
      .def_readonly("transport", &EngineReport::transport, "Name of the transport.")
      .def_readonly("sent_bytes_per_step", &EngineReport::sent_bytes_per_step, "Sent in the last step.")
      .def_readonly("received_bytes_per_step", &EngineReport::received_bytes_per_step, "Received in the last step.")
      .def_readonly("planned_sent_bytes", &EngineReport::planned_sent_bytes,
                    "Sent in a step of the current schedule; 0 before the first schedule.")
      .def_readonly("state_formula_bytes", &EngineReport::state_formula_bytes,
                    "States by the formula, without padding.")
      .def_readonly("sent_formula_bytes", &EngineReport::sent_formula_bytes,
                    "Sent in a step by the formula, without padding.")
      .def_readonly("num_parameters", &EngineReport::num_parameters, "Number of elements of the model's parameters.")
      .def_readonly("skipped_steps", &EngineReport::skipped_steps, "Number of steps that updated nothing.")
      .def_readonly("loss_scale", &EngineReport::loss_scale, "Loss scale of the next step; None without one.")
      .def_readonly("replans", &EngineReport::replans, "Number of times that states moved to another tier.")
      .def_readonly("trace_mismatches", &EngineReport::trace_mismatches,
                    "Number of steps that departed from their schedule.")
      .def_readonly("padding_bytes", &EngineReport::padding_bytes, "Padding of all units, over all shards.")
      .def_readonly("delayed_steps", &EngineReport::delayed_steps,
                    "Number of updates whose gradient was applied a step late.")
      .def_readonly("moved_bytes", &EngineReport::moved_bytes, "Moved by all replans.")
      .def_property_readonly(
          "copies", [](const EngineReport& self) { return self.copies.number; }, "Copies of the model.")
      .def_property_readonly(
          "profile",
          [](const EngineReport& self) {
            const StepProfile& profile = self.profile;
            return std::map<std::string, double>{{"forward_seconds", profile.forward_seconds},
                                                 {"backward_seconds", profile.backward_seconds}};
          },
          "Seconds of the passes of the last step.")
      .def_property_readonly(
          "state_bytes",
          [](const EngineReport& self) {
            std::map<std::string, std::int64_t> bytes;
            for (const Tier tier : kAllTiers) bytes.emplace(name_of(tier), self.state_bytes[tier]);
            return bytes;
          },
          "States now, by tier.");
}

// The parameters of one unit, beginning with number `first`; and the number that comes next, or 0.
std::pair<std::size_t, std::vector<NamedTensor>> some_parameters(PythonEngine& self, std::size_t first,
                                                                 bool full_precision) {
  std::vector<NamedTensor> found;
  const std::size_t next = self.attachment().control().visit_some(
      first, [&](const std::string& name, const torch::Tensor& tensor) { found.emplace_back(name, tensor.clone()); },
      full_precision);
  return {next, std::move(found)};
}

std::map<std::string, double> work_seconds(PythonEngine& self) {
  const WorkSeconds work = self.attachment().control().take_work_seconds();
  return {{"gather", work.gather}, {"reduce", work.reduce}, {"update", work.update}, {"wait", work.wait}};
}

py::dict plan_of(PythonEngine& self) {
  EngineControl control = self.attachment().control();
  if (self.options().sync.has_servers())
    throw ConfigError("plan", "sync", "a run with servers has no such plan", "use `zero plan`");
  return plan_dict({.specs = self.attachment().parameters(),
                    .units = control.units(),
                    .options = settle_leaves(self.options(), self.world().size()),
                    .world = self.world().size(),
                    .schedule = control.schedule()});
}

}  // namespace

void bind_engine(py::module_& module) {
  bind_scopes(module);
  bind_reports(module);
  py::class_<PythonEngine, std::shared_ptr<PythonEngine>> engine(module, "Engine");
  engine
      .def(py::init([](std::shared_ptr<World> world, const std::vector<NamedTensor>& parameters,
                       const std::vector<NamedTensor>& buffers, const std::set<std::string>& own_unit,
                       const std::set<std::string>& fp32, bool keep_buffers, const py::dict& options,
                       const std::optional<py::function>& weights) {
        AttachOptions given = options_from(options);
        WeightSource source = weights ? source_of(*weights) : WeightSource();
        const py::gil_scoped_release no_gil;
        return std::make_shared<PythonEngine>(std::move(world),
                                              tensors_from(parameters, buffers, own_unit, fp32, keep_buffers),
                                              std::move(given), std::move(source));
      }))
      .def(
          "scaled", [](PythonEngine& self, const torch::Tensor& loss) { return self.attachment().scaled(loss); },
          NoGil())
      .def(
          "micro_batch", [](PythonEngine& self, int number) { self.attachment().begin_micro_batch(number); }, NoGil())
      .def(
          "merge_copies", [](PythonEngine& self) { self.attachment().merge_copies(); }, NoGil())
      .def(
          "offload_states",
          [](PythonEngine& self, bool parameter, bool gradient, bool optimizer) {
            return self.attachment().offload_states(
                {.parameter = parameter, .gradient = gradient, .optimizer = optimizer});
          },
          NoGil())
      .def(
          "reload_states", [](PythonEngine& self) { return self.attachment().reload_states(); }, NoGil())
      .def("gathered",
           [](std::shared_ptr<PythonEngine> self, std::vector<torch::Tensor> tensors, int source) {
             return std::make_unique<Scope>([self = std::move(self), tensors = std::move(tensors), source] {
               return end_of(new GatheredScope(self->attachment().gathered(tensors, source)));
             });
           })
      .def("frozen",
           [](std::shared_ptr<PythonEngine> self) {
             return std::make_unique<Scope>(
                 [self = std::move(self)] { return end_of(new FrozenScope(self->attachment().frozen())); });
           })
      .def("using",
           [](std::shared_ptr<PythonEngine> self, std::vector<torch::Tensor> tensors) {
             return std::make_unique<Scope>([self = std::move(self), tensors = std::move(tensors)] {
               return end_of(new UsingScope(self->attachment().use(tensors)));
             });
           })
      .def(
          "gradient", [](PythonEngine& self, const std::string& name) { return self.attachment().gradient(name); },
          NoGil())
      .def(
          "grad_norms", [](PythonEngine& self) { return self.attachment().grad_norms(); }, NoGil())
      .def(
          "full_state",
          [](PythonEngine& self, const std::string& name, const std::string& state) {
            return self.attachment().full_state(name, state);
          },
          NoGil())
      .def(
          "state_shard",
          [](PythonEngine& self, const std::string& name, const std::string& state) {
            const StateShard shard = self.attachment().state_shard(name, state);
            return std::pair(shard.offset, torch::Tensor(shard.values));
          },
          NoGil())
      .def("state_names",
           [](PythonEngine& self, const std::optional<std::string>& name) {
             return name ? self.attachment().state_names(*name) : self.attachment().state_names();
           })
      .def("some_parameters", &some_parameters, NoGil())
      .def("work_seconds", &work_seconds)
      .def("plan", &plan_of);
  bind_shared(engine);
  // Parameters of any engines, for code that is no operator: a compiled graph.
  module.def("using", [](std::vector<torch::Tensor> tensors) {
    return std::make_unique<Scope>([tensors = std::move(tensors)] { return end_of(new UsingScope(tensors)); });
  });
  module.def("mark_zeroed", [](const std::vector<torch::Tensor>& parameters) {
    for (const torch::Tensor& parameter : parameters) mark_zeroed(parameter);
  });
  module.def("is_attached", [](const torch::Tensor& tensor) { return ParameterStorage::of(tensor) != nullptr; });
}

}  // namespace zero::python
