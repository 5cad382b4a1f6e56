// `zero plan`: what each rank would hold and send, from shapes alone.
#include <array>
#include <iostream>
#include <limits>

#include <fmt/format.h>

#include "zero/base/bytes.h"
#include "zero/cli/torch_verbs/job.h"
#include "zero/cli/torch_verbs/verbs.h"
#include "zero/engine/engine.h"
#include "zero/plan/schedule.h"
#include "zero/torch/meta_trace.h"
#include "zero/torch/module_parameters.h"
#include "zero/train/plan_table.h"

namespace zero::cli {
namespace {

// Targets and inputs of one micro-batch, without values.
torch::Tensor meta_loss(Task& task, const SampleShape& shape, std::int64_t batch) {
  const auto meta = [](at::IntArrayRef sizes, at::ScalarType type) {
    return at::empty(sizes, at::TensorOptions(type).device(at::kMeta));
  };
  if (shape.context > 0) {
    return task.loss(meta({batch, shape.context}, at::kLong), meta({batch, shape.context}, at::kLong));
  }
  const auto target = shape.classes > 0 ? meta({batch}, at::kLong) : meta({batch, 1}, at::kFloat);
  return task.loss(meta({batch, shape.features}, at::kFloat), target);
}

std::string schedule_text(const PlanRequest& request, Task& task, const SampleShape& shape, const TrainingPlan& plan,
                          const AttachOptions& attach, GatherBudget budget) {
  const MetaTrace traced =
      trace_on_meta(task.module(), [&](int) { return meta_loss(task, shape, request.loaded.config.train.batch); },
                    {.accumulate = attach.accumulate, .dtype = attach.dtype, .units = attach.units});
  const Placement placement = place(plan.stage, plan.reduce, plan.accumulate);
  const Schedule schedule = build_schedule(traced.trace, traced.units, plan.world, placement, budget);
  const ScheduleCost cost = simulate(schedule, traced.units, plan.world);
  return fmt::format("schedule: {} gathers, {} reductions, {} sent, {} gathered at most\n{}", cost.num_gathers,
                     cost.num_reduces, format_bytes(cost.sent_bytes), format_bytes(cost.gathered_peak_bytes),
                     print_schedule(schedule, traced.units));
}

}  // namespace

int plan_verb(const PlanRequest& request) {
  const Config& config = request.loaded.config;
  const AttachOptions attach = attach_options(config, 1);
  ModelOptions model = model_options(config);
  model.init.clear();  // shapes are wanted, not weights
  const SampleShape shape = planned_shape(config);
  const auto task = make_task(model, shape, 0);
  TrainingPlan plan{.model = model.name,
                    .specs = parameters_of(task->module(), attach.dtype).specs,
                    .world = static_cast<int>(request.world),
                    .stage = attach.stage,
                    .reduce = attach.reduce,
                    .accumulate = attach.accumulate,
                    .num_moments = make_update_rule(attach.optimizer)->num_moments()};
  plan.units = make_units(plan.specs, attach.units);
  // "auto" is what will be free on the machines of the run: unknown here, so nothing is refused for it.
  const GatherBudget budget =
      gather_budget(attach.device_memory, plan.units, plan.world, place(plan.stage, plan.reduce, plan.accumulate),
                    plan.num_moments, plan.stage, std::numeric_limits<std::int64_t>::max());
  constexpr std::array kStages{0, 1, 2, 3};
  if (request.json) {
    std::cout << plan_json(plan, kStages);
    return 0;
  }
  std::cout << plan_table(plan, kStages);
  if (request.schedule) std::cout << '\n' << schedule_text(request, *task, shape, plan, attach, budget);
  return 0;
}

}  // namespace zero::cli
