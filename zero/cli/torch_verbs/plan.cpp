// `zero plan`: what each rank would hold and send, from shapes alone.
#include <array>
#include <iostream>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ATen/ops/empty.h>

#include "zero/base/bytes.h"
#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/cli/torch_verbs/job.h"
#include "zero/cli/torch_verbs/verbs.h"
#include "zero/engine/engine.h"
#include "zero/engine/placer.h"
#include "zero/engine/rate_probe.h"
#include "zero/plan/partition.h"
#include "zero/plan/schedule.h"
#include "zero/torch/meta_trace.h"
#include "zero/torch/module_parameters.h"
#include "zero/train/plan_table.h"
#include "zero/train/rate_cache.h"

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
  const Placement placement = placement_of(plan);
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

bool leaves_device(const AttachOptions& attach) {
  const OffloadOptions& offload = attach.offload;
  return !offload.fractions.on_device() || !offload.disk.empty() ||
         offload.host_memory.kind == TierMemory::Kind::kBytes;
}

// Seconds that a run of the model computed in each pass, and its elements updated a second.
struct Profile {
  StepProfile step;
  double update_seconds = 0;
};

Profile read_profile(const std::string& run) {
  const std::string path = run + "/report.json";
  require_input_file("--profile", path);
  const auto json = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  const auto* profile = json.is_object() && json.contains("profile") ? &json["profile"] : nullptr;
  const auto seconds = [&](const char* name) {
    const bool is_there = profile != nullptr && profile->contains(name) && (*profile)[name].is_number();
    if (!is_there)
      throw ConfigError("--profile", path, fmt::format("says no {}", name), "name the folder of a run that ended");
    return (*profile)[name].get<double>();
  };
  Profile read{.step = {.forward_seconds = seconds("forward_seconds"), .backward_seconds = seconds("backward_seconds")},
               .update_seconds = seconds("update_seconds")};
  return read;
}

// Where states lie and what a step then takes, with the rates of this machine: those that a run of as many ranks found
// here, else those of this process alone, the disk's shared by the ranks.
void place_and_predict(TrainingPlan& plan, const AttachOptions& attach, const Config& config,
                       const std::string& profile) {
  EngineOptions options{.stage = plan.stage,
                        .reduce = plan.reduce,
                        .accumulate = plan.accumulate,
                        .delayed_update = plan.delayed_update,
                        .device_memory = attach.device_memory,
                        .offload = attach.offload,
                        .optimizer = attach.optimizer,
                        .threads = attach.threads};
  const auto rule = make_update_rule(attach.optimizer);
  OffloadOptions& offload = options.offload;
  const int threads = attach_options(config, plan.world).threads;
  const std::string machine = machine_identity(offload.disk, plan.world, threads, name_of(attach.optimizer));
  if (config.zero.rates == "cached")
    offload.rates = RateCache().find(machine, !offload.disk.empty()).value_or(TierRates{});
  if (offload.rates.update_numel == 0) {
    offload.rates = probe_rates(nullptr, offload, *rule, threads, offload.disk_memory);
    offload.rates.disk_read /= plan.world;
    offload.rates.disk_write /= plan.world;
  }
  offload.rates.link_up = offload.rates.link_down = offload.link_bytes_per_second;
  offload.probes = true;

  StepProfile step;
  if (!profile.empty()) {
    const Profile read = read_profile(profile);
    step = read.step;
    plan.has_profile = true;
    std::int64_t updated = 0;
    const bool sharded = placement_of(plan).optimizer_sharded;
    for (const Unit& unit : plan.units) {
      if (unit.trainable) updated += sharded ? shard_of(unit, 0, plan.world).numel : padded_numel(unit, plan.world);
    }
    if (read.update_seconds > 0) offload.rates.update_numel = static_cast<double>(updated) / read.update_seconds;
  }
  const Placer placer(nullptr, plan.world, options, plan.units, *rule);
  plan.tiers = placer.placement().tiers;
  plan.predicted = placer.predicted(placer.placement(), step);
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
                    .delayed_update = attach.delayed_update,
                    .num_moments = make_update_rule(attach.optimizer)->num_moments()};
  plan.units = make_units(plan.specs, attach.units);
  if (leaves_device(attach)) place_and_predict(plan, attach, config, request.profile);
  // "auto" is what will be free on the machines of the run: unknown here, so nothing is refused for it.
  const GatherBudget budget = gather_budget(attach.device_memory, plan.units, plan.world, placement_of(plan),
                                            plan.num_moments, plan.stage, std::numeric_limits<std::int64_t>::max());
  constexpr std::array kStages{0, 1, 2, 3};
  std::optional<PrintedSchedule> schedule;
  if (request.schedule) schedule = schedule_of(request, *task, shape, plan, attach, budget);
  const PrintedSchedule* shown = schedule ? &*schedule : nullptr;
  std::cout << (request.json ? as_json(plan, kStages, shown) : as_text(plan, kStages, shown));
  return 0;
}

}  // namespace zero::cli
