// `zero plan`: what each rank would hold and send, from shapes alone.
#include <array>
#include <iostream>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ATen/ops/empty.h>

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

struct PrintedSchedule {
  ScheduleCost cost;
  std::string moves;  // a line an event
};

PrintedSchedule schedule_of(const PlanRequest& request, Task& task, const SampleShape& shape, const TrainingPlan& plan,
                            const AttachOptions& attach, GatherBudget budget) {
  const MetaTrace traced =
      trace_on_meta(task.module(), [&](int) { return meta_loss(task, shape, request.loaded.config.train.batch); },
                    {.accumulate = attach.accumulate, .dtype = attach.dtype, .units = attach.units});
  const Placement placement = place(plan.stage, plan.reduce, plan.accumulate);
  const Schedule schedule = build_schedule(traced.trace, traced.units, plan.world, placement, budget);
  return {simulate(schedule, traced.units, plan.world), print_schedule(schedule, traced.units)};
}

std::string as_json(const TrainingPlan& plan, std::span<const int> stages, const PrintedSchedule* schedule) {
  if (schedule == nullptr) return plan_json(plan, stages);
  auto json = nlohmann::ordered_json::parse(plan_json(plan, stages));
  const ScheduleCost& cost = schedule->cost;
  json["schedule"] = {{"num_gathers", cost.num_gathers},
                      {"num_reduces", cost.num_reduces},
                      {"sent_bytes", cost.sent_bytes},
                      {"gathered_peak_bytes", cost.gathered_peak_bytes},
                      {"moves", schedule->moves}};
  return json.dump(1) + "\n";
}

std::string as_text(const TrainingPlan& plan, std::span<const int> stages, const PrintedSchedule* schedule) {
  std::string text = plan_table(plan, stages);
  if (schedule == nullptr) return text;
  const ScheduleCost& cost = schedule->cost;
  return text + fmt::format("\nschedule: {} gathers, {} reductions, {} sent, {} gathered at most\n{}", cost.num_gathers,
                            cost.num_reduces, format_bytes(cost.sent_bytes), format_bytes(cost.gathered_peak_bytes),
                            schedule->moves);
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
  std::optional<PrintedSchedule> schedule;
  if (request.schedule) schedule = schedule_of(request, *task, shape, plan, attach, budget);
  const PrintedSchedule* shown = schedule ? &*schedule : nullptr;
  std::cout << (request.json ? as_json(plan, kStages, shown) : as_text(plan, kStages, shown));
  return 0;
}

}  // namespace zero::cli
