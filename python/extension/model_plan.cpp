#include "python/extension/model_plan.h"

#include <limits>
#include <map>
#include <set>

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "zero/base/text/bytes.h"
#include "zero/engine/options/leaf_options.h"
#include "zero/engine/options/option_numbers.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/engine/place/placer.h"
#include "zero/engine/place/stage_cost.h"
#include "zero/plan/units/partition.h"
#include "zero/torch/meta/meta_trace.h"
#include "zero/torch/module/module_parameters.h"

#include "python/extension/options.h"
#include "python/extension/python_engine.h"

namespace py = pybind11;

namespace zero::python {
namespace {

py::dict state_dict_of(const StateBytes& bytes) {
  py::dict found;
  found["parameter"] = bytes.parameter;
  found["gradient"] = bytes.gradient;
  found["master"] = bytes.master;
  found["moment"] = bytes.moment;
  found["total"] = bytes.total();
  return found;
}

py::dict unit_dict(const Unit& unit, int shard) {
  py::dict found;
  found["name"] = unit.name;
  found["num_parameters"] = used_numel(unit);
  found["dtype"] = std::string(name_of(unit.dtype));
  found["trainable"] = unit.trainable;
  found["gathered_bytes"] = gathered_bytes(unit, shard);
  found["shard_bytes"] = shard_numel(unit, shard) * static_cast<std::int64_t>(size_of(unit.dtype));
  return found;
}

py::dict stage_dict(const ModelPlan& plan, const Mesh& mesh, int stage) {
  const StageCost cost = cost_of(plan.units, mesh, plan.options, placement_at(plan.options, mesh, stage), stage);
  py::dict formula;
  formula["state_bytes"] = cost.state_formula;
  formula["sent_bytes"] = cost.sent_formula;
  py::dict found;
  found["stage"] = stage;
  found["memory_bytes"] = state_dict_of(cost.state);
  found["sent_bytes"] = cost.sent;
  found["formula"] = formula;
  return found;
}

// A step whose forward and backward pass use each unit once, in the units' order.
Trace assumed_trace(const std::vector<Unit>& units, int accumulate) {
  Trace trace;
  for (int micro = 0; micro < accumulate; ++micro) {
    for (const Unit& unit : units) trace.events.push_back({EventKind::kAccess, unit.index, {}, micro});
    trace.events.push_back({EventKind::kBackward, -1, {}, micro});
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
      trace.events.push_back({EventKind::kAccess, unit->index, {}, micro});
      if (unit->trainable) trace.events.push_back({EventKind::kGradient, unit->index, {}, micro});
    }
    trace.events.push_back({EventKind::kEndBackward, -1, {}, micro});
  }
  trace.events.push_back({EventKind::kStep, -1, {}});
  return trace;
}

using Loss = std::function<torch::Tensor(int micro)>;

// autograd refuses a backward pass with the GIL; `loss` takes it.
Trace traced(const ModelTensors& model, const Loss& loss, const AttachOptions& options) {
  const py::gil_scoped_release no_gil;
  return trace_on_meta(model, loss,
                       {.accumulate = options.accumulate,
                        .dtype = options.dtype,
                        .units = options.units,
                        .is_matrix = matrices_of(options)})
      .trace;
}

py::dict plan(const std::vector<NamedTensor>& parameters, const std::vector<NamedTensor>& buffers,
              const std::set<std::string>& own_unit, const std::set<std::string>& fp32, const py::dict& options,
              int world, const std::optional<Loss>& loss) {
  const ModelTensors model = with_quantised_buffers(tensors_from(parameters, buffers, own_unit, fp32));
  ModelPlan made{.specs = parameters_of(model, {}).specs, .options = options_from(options), .world = world};
  made.specs = parameters_of(model, made.options.dtype).specs;
  if (world < 1) throw ConfigError("world", fmt::format("{}", world), "no number of ranks", "give 1 or more");
  made.options = settle_leaves(std::move(made.options), world);
  require_numbers(made.options);
  require_secondary(made.options, world);
  require_wire(made.options, world);
  require_matrix(made.specs, made.options);
  made.units = units_of(made.specs, world, made.options);
  const Mesh mesh = mesh_of(world, made.options);
  const auto rule = rule_of(made.options);
  const OptimizerSpec spec = spec_of(*rule);
  Placement placement;
  {
    const py::gil_scoped_release no_gil;  // the placer may probe this machine
    placement = Placer(nullptr, mesh, made.options, made.units, *rule).placement();
  }
  GatherBudget budget = gather_budget(made.options.device_memory, made.units, mesh.shard, placement, spec,
                                      made.options.stage, std::numeric_limits<std::int64_t>::max());
  budget.overlaps_updates = overlaps_updates(placement, made.units, mesh.shard, spec, made.options.offload);
  const Trace trace = loss ? traced(model, *loss, made.options) : assumed_trace(made.units, made.options.accumulate);
  made.schedule = build_schedule(trace, made.units, mesh.shard, placement, budget);
  py::dict found = plan_dict(made);
  found["assumed"] = !loss;
  return found;
}

}  // namespace

py::dict plan_dict(const ModelPlan& plan) {
  const Mesh mesh = mesh_of(plan.world, plan.options);
  const OptimizerSpec spec = spec_of(*rule_of(plan.options));
  const Placement& placement = plan.schedule.placement;
  py::dict found, tiers, schedule;
  std::int64_t num_parameters = 0;
  for (const ParamSpec& parameter : plan.specs) num_parameters += parameter.numel();
  py::list units, stages;
  for (const Unit& unit : plan.units) units.append(unit_dict(unit, mesh.shard));
  for (int stage = 0; stage < 4; ++stage) {
    // Options that only stage 3 has are refused at other stages.
    if (stage == plan.options.stage || plan.options.shards != Cut::kHash) stages.append(stage_dict(plan, mesh, stage));
  }
  for (const Tier tier : kAllTiers)
    tiers[py::str(std::string(name_of(tier)))] =
        state_dict_of(state_bytes(plan.units, mesh.shard, placement, spec, tier));
  const ScheduleCost cost = simulate(plan.schedule, plan.units, mesh.shard, spec);
  const std::int64_t working =
      cost.gathered_peak_bytes + staging_bytes(plan.units, mesh.shard, placement, plan.schedule.budget.is_min());
  schedule["text"] = print_schedule(plan.schedule, plan.units);
  schedule["sent_bytes"] = cost.sent_bytes;
  schedule["gathered_peak_bytes"] = cost.gathered_peak_bytes;
  schedule["num_gathers"] = cost.num_gathers;
  schedule["num_reduces"] = cost.num_reduces;
  found["world"] = plan.world;
  found["copies"] = mesh.copies;
  found["stage"] = plan.options.stage;
  found["num_parameters"] = num_parameters;
  found["units"] = units;
  found["stages"] = stages;
  found["tiers"] = tiers;
  found["working_bytes"] = working;
  found["schedule"] = schedule;
  return found;
}

void bind_plan(py::module_& module) {
  module.def("plan", &plan, py::arg("parameters"), py::arg("buffers"), py::arg("own_unit"), py::arg("fp32"),
             py::arg("options"), py::arg("world"), py::arg("loss"));
  module.def("format_bytes", &format_bytes);
  module.def("parse_bytes", &parse_bytes);
}

}  // namespace zero::python
