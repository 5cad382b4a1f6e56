// `zero plan`: what each rank would hold and send, from shapes alone.
#include <array>
#include <iostream>

#include <fmt/format.h>

#include "zero/base/error.h"
#include "zero/base/machine.h"
#include "zero/cli/torch_verbs/job.h"
#include "zero/cli/torch_verbs/verbs.h"
#include "zero/engine/engine.h"
#include "zero/plan/schedule.h"
#include "zero/torch/module_parameters.h"
#include "zero/train/plan_table.h"

namespace zero::cli {
namespace {

// The trace of a model whose forward touches each unit once, in order, and whose backward does so in reverse.
Trace one_pass_trace(const std::vector<Unit>& units, int accumulate) {
  Trace trace;
  for (int micro = 0; micro < accumulate; ++micro) {
    for (const Unit& unit : units)
      trace.events.push_back({.kind = EventKind::kTouch, .unit = unit.index, .pinned = {}});
    trace.events.push_back({.kind = EventKind::kBackward, .pinned = {}});
    for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
      trace.events.push_back({.kind = EventKind::kTouch, .unit = unit->index, .pinned = {}});
      if (unit->trainable) trace.events.push_back({.kind = EventKind::kGradient, .unit = unit->index, .pinned = {}});
    }
    trace.events.push_back({.kind = EventKind::kEndBackward, .pinned = {}});
  }
  trace.events.push_back({.kind = EventKind::kStep, .pinned = {}});
  return trace;
}

TrainingPlan make_plan(const PlanRequest& request, const AttachOptions& attach) {
  const Config& config = request.loaded.config;
  ModelOptions model = model_options(config);
  model.init.clear();  // shapes are wanted, not weights
  const auto task = make_task(model, planned_shape(config), 0);
  TrainingPlan plan{.model = model.name,
                    .specs = parameters_of(task->module(), attach.dtype).specs,
                    .world = static_cast<int>(request.world),
                    .stage = attach.stage,
                    .reduce = attach.reduce,
                    .accumulate = attach.accumulate,
                    .num_moments = make_update_rule(attach.optimizer)->num_moments()};
  plan.units = make_units(plan.specs, {});
  return plan;
}

}  // namespace

int plan_verb(const PlanRequest& request) {
  const AttachOptions attach = attach_options(request.loaded.config, 1);
  const TrainingPlan plan = make_plan(request, attach);
  const Placement placement = place(plan.stage, plan.reduce, plan.accumulate);
  // "auto" is what will be free on the machines of the run: unknown here, so nothing is refused for it.
  const std::int64_t free_bytes = std::numeric_limits<std::int64_t>::max();
  const GatherBudget budget =
      gather_budget(attach.device_memory, plan.units, plan.world, placement, plan.num_moments, plan.stage, free_bytes);
  constexpr std::array kStages{0, 1, 2, 3};
  std::cout << (request.json ? plan_json(plan, kStages) : plan_table(plan, kStages));
  if (request.schedule && !request.json) {
    const Schedule schedule =
        build_schedule(one_pass_trace(plan.units, plan.accumulate), plan.units, plan.world, placement, budget);
    const ScheduleCost cost = simulate(schedule, plan.units, plan.world);
    std::cout << "\nschedule, each unit touched once a pass: " << cost.num_gathers << " gathers, " << cost.num_reduces
              << " reductions, " << cost.sent_bytes << " bytes sent, at most " << cost.gathered_peak_bytes
              << " bytes gathered\n"
              << print_schedule(schedule, plan.units);
  }
  return 0;
}

}  // namespace zero::cli
