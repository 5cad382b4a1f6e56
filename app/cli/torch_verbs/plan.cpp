// `zero plan`: the memory and the traffic of each rank, from shapes only.
#include <algorithm>
#include <array>
#include <cerrno>
#include <iostream>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/options/engine_host.h"
#include "zero/engine/place/rate_probe.h"
#include "zero/engine/update/matrix_directions.h"
#include "zero/memory/account/host_memory.h"
#include "zero/memory/disk/disk_room.h"
#include "zero/memory/io/timed_calls.h"
#include "zero/plan/schedule/schedule.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/partition.h"
#include "zero/torch/activations/large_blocks.h"
#include "zero/torch/meta/meta_memory.h"
#include "zero/torch/meta/meta_trace.h"

#include "app/cli/torch_verbs/dry_run.h"
#include "app/cli/torch_verbs/host_group.h"
#include "app/cli/torch_verbs/job.h"
#include "app/cli/torch_verbs/pipeline_plan.h"
#include "app/cli/torch_verbs/planned_gpu.h"
#include "app/cli/torch_verbs/planned_model.h"
#include "app/cli/torch_verbs/verbs.h"
#include "app/config/options/with_origins.h"
#include "app/config/rules/fit_to_world.h"
#include "app/report/plan/cluster_plan.h"
#include "app/report/plan/computation.h"
#include "app/report/plan/placed_plan.h"
#include "app/report/plan/plan_table.h"
#include "app/report/screen/wrapped.h"
#include "app/train/machine/learned_activations.h"
#include "app/train/machine/machine_peak.h"
#include "app/train/machine/rate_cache.h"
#include "app/train/run/trials/operator_trial.h"
#include "app/train/tasks/model_kind.h"
#include "app/train/weights/module_plan.h"

namespace zero::cli {
namespace {

// Computes the loss of one micro-batch of inputs and targets without values.
torch::Tensor meta_loss(Task& task, const SampleShape& shape, std::int64_t batch) {
  const auto meta = [](at::IntArrayRef sizes, at::ScalarType type) {
    return at::empty(sizes, at::TensorOptions(type).device(at::kMeta));
  };
  if (shape.context > 0) {
    const auto tokens = meta({batch, shape.context}, at::kLong);
    return task.loss(tokens, shape.vocab > 0 ? meta({batch}, at::kLong) : tokens);
  }
  const auto target = shape.classes > 0 ? meta({batch}, at::kLong) : meta({batch, 1}, at::kFloat);
  return task.loss(meta({batch, shape.features}, at::kFloat), target);
}

struct PrintedSchedule {
  ScheduleCost cost;
  std::string moves;  // a line for each event
};

constexpr std::int64_t kFewTokens = 32;

// Traces a step. Which operators use which units depends on neither the number of samples nor the number of tokens.
// Both are small here, because some operators are computed.
Trace trace_of(const PlanRequest& request, Task& task, SampleShape shape, const AttachOptions& attach) {
  shape.context = std::min(shape.context, kFewTokens);
  const std::int64_t samples = std::min<std::int64_t>(most_samples(request.loaded.config.train), 2);
  return trace_on_meta(task.module(), [&](int) { return meta_loss(task, shape, samples); },
                       {.accumulate = attach.accumulate,
                        .dtype = attach.dtype,
                        .units = attach.units,
                        .is_matrix = matrices_of(attach)})
      .trace;
}

// Returns the bytes that autograd keeps of a forward pass over one sample of `tokens` tokens (rows have none). `tokens`
// is small, because some operators are computed.
std::int64_t kept_bytes(const ModelOptions& model, SampleShape shape, std::int64_t tokens,
                        const AttachOptions& attach) {
  if (shape.context > 0) shape.context = tokens;
  const auto task = make_task(model, shape, 0);
  std::int64_t kept = 0;
  const auto loss = [&](int) {
    const MetaMemory memory;
    torch::Tensor value = meta_loss(*task, shape, /*batch=*/1);
    kept = memory.live_bytes();
    return value;
  };
  trace_on_meta(task->module(), loss, {.dtype = attach.dtype, .units = attach.units});
  return kept;
}

// A rank's activations at one time. They grow linearly with samples, tokens and blocks, so a small model predicts those
// of a large model.
struct ActivationBytes {
  std::int64_t kept = 0;
  std::int64_t checkpointed = 0;  // with activation checkpoints; 0: this model has no blocks
  std::int64_t in_use = 0;        // as checkpointed, but with the inputs of blocks on another tier
};
ActivationBytes activations_of(ModelOptions model, const SampleShape& shape, std::int64_t batch,
                               const AttachOptions& attach) {
  model.activation_offload.reset();
  const std::int64_t tokens = std::min(shape.context, kFewTokens), layers = model.layers;
  const auto of_batch = [&] {
    const std::int64_t one = kept_bytes(model, shape, tokens, attach);
    return tokens == 0 ? one * batch : one * batch * shape.context / tokens;
  };
  if (!model_row(model.name).has_blocks) return {.kept = of_batch()};
  const auto bytes_with = [&](std::int64_t blocks, bool computes_again) {
    model.layers = blocks;
    model.checkpoint_activations = computes_again;
    return of_batch();
  };
  const std::int64_t one = bytes_with(1, false), block = bytes_with(2, false) - one;
  const std::int64_t one_input = bytes_with(1, true), input = bytes_with(2, true) - one_input;
  // One block at a time is computed again.
  return {.kept = one + (layers - 1) * block,
          .checkpointed = one_input + (layers - 1) * input + block,
          .in_use = one_input + block};
}

// Returns the room on the disk tier's folders. require_here() has checked that the folders exist.
std::int64_t room_of(const OffloadOptions& offload) {
  return offload.disk.empty() ? 0 : room_on(offload.disk, TimedCalls(FileCalls::kernel(), offload.disk_timeout));
}

// If a run of this model on this machine's GPU has measured its activations, they replace the estimate and the fifth
// that is left free.
void learn_of_runs(const PlanRequest& request, const ModelOptions& model, const SampleShape& shape,
                   const AttachOptions& attach, PlannedMachine& machine) {
  const Config& config = request.loaded.config;
  if (!machine.has_known_gpu() || !machine.leaves_a_fifth || config.zero.probe_rates) return;
  machine.activations_of = activation_work(model, shape, config.train.batch, attach.dtype.value_or(DType::kFloat32),
                                           machine.gpu.substr(machine.gpu.find(' ') + 1));
  machine.learned_bytes = LearnedActivations(machine.activations_of).bytes();
  if (machine.learned_bytes == 0) return;
  machine.activation_bytes = machine.learned_bytes;
  machine.leaves_a_fifth = false;
}

// All that is known of a machine that need not be there.
void describe(const Cluster& cluster, PlannedMachine& machine) {
  machine.is_described = true;
  machine.leaves_a_fifth = false;  // the file's memory is for training
  machine.free_bytes = cluster.memory * machine.sharers();
  machine.why_free_not_known = "the cluster's file has no `memory`";
}

PlannedMachine machine_of(const PlanRequest& request, const ModelOptions& model, const SampleShape& shape,
                          const AttachOptions& attach) {
  const std::int64_t batch = most_samples(request.loaded.config.train);
  const ActivationBytes activations = activations_of(model, shape, batch, attach);
  const bool computes_again = model.checkpoint_activations && activations.checkpointed > 0;
  PlannedMachine machine{.machines = static_cast<int>(request.machines),
                         .ranks = static_cast<int>(request.world / request.machines),
                         .free_bytes = available_memory(),
                         .leaves_a_fifth = attach.device_memory.kind == MemoryBudget::Kind::kAuto,
                         .batch = batch,
                         .activation_bytes = computes_again ? activations.checkpointed : activations.kept,
                         .checkpointed_bytes = computes_again ? 0 : activations.checkpointed,
                         .lower_free_bytes = {.disk = room_of(attach.offload)}};
  look_at_gpu(request.loaded, request.trains, machine);
  if (request.cluster) describe(*request.cluster, machine);
  const Config& config = request.loaded.config;
  learn_of_runs(request, model, shape, attach, machine);
  if (machine.ranks_on_gpu == 0 || !computes_again || !config.model.activation_offload) return machine;
  const ActivationOffloadNeed need = activation_need(config);
  if (machine.learned_bytes == 0) machine.activation_bytes = activations.in_use + need.device;
  machine.host_activation_bytes = need.host;
  return machine;
}

}  // namespace

PlannedModel planned_model(const PlanRequest& request, const AttachOptions& attach) {
  ModelOptions model = model_options(request.loaded.config);
  model.init.clear();  // only shapes are needed, not weights
  const SampleShape shape = planned_shape(request.loaded.config);
  PlannedModel planned{.shape = shape, .task = make_task(model, shape, 0)};
  planned.plan = plan_of(model.name, planned.task->module(), static_cast<int>(request.world), attach);
  planned.plan.machine = machine_of(request, model, shape, attach);
  return planned;
}

namespace {

// Returns the steps of a run that is given its epochs; nullopt if its data is not on this machine.
std::optional<std::int64_t> steps_of_epochs(LoadedConfig loaded) {
  if (loaded.config.train.epochs == 0) return std::nullopt;
  const auto samples = samples_of_pass(loaded.config);
  if (!samples) return std::nullopt;
  settle_epochs(loaded, *samples);
  return loaded.config.train.steps;
}

// Checks that the folders exist. Otherwise a typing error would be planned as an infinitely fast disk.
void require_here(const OffloadOptions& offload) {
  const TimedCalls calls(FileCalls::kernel(), offload.disk_timeout);
  for (const std::string& folder : offload.disk) {
    const int found = calls.try_folder(folder);
    if (found == -ENOENT || found == -ENOTDIR)
      throw ConfigError("zero.disk", folder, found == -ENOENT ? "no such folder" : "is not a folder",
                        "name a folder of a disk of this machine: the disk's speed is probed there, and no file stays");
  }
}

// `steps`: the number of steps of a run that is given its epochs.
std::string as_json(const TrainingPlan& plan, std::span<const int> stages, const PrintedSchedule* schedule,
                    std::optional<std::int64_t> steps, const std::optional<ClusterPlan>& cluster,
                    const std::optional<DryRun>& dry_run) {
  if (schedule == nullptr && !steps && !cluster && !dry_run) return plan_json(plan, stages);
  auto json = nlohmann::ordered_json::parse(plan_json(plan, stages));
  if (steps) json["steps"] = *steps;
  if (cluster) json["cluster"] = cluster_json(*cluster);
  if (dry_run) json["run"] = dry_run_json(*dry_run);
  if (schedule == nullptr) return json.dump(1) + "\n";
  const ScheduleCost& cost = schedule->cost;
  json["schedule"] = {{"num_gathers", cost.num_gathers},
                      {"num_reduces", cost.num_reduces},
                      {"num_prefetches", cost.num_prefetches},
                      {"num_offloads", cost.num_offloads},
                      {"num_part_gathers", cost.num_part_gathers},
                      {"sent_bytes", cost.sent_bytes},
                      {"part_sent_bytes", cost.part_sent_bytes},
                      {"crossing_bytes", cost.crossing_bytes},
                      {"gathered_peak_bytes", cost.gathered_peak_bytes}};
  for (const Tier tier : kLowerTiers) {
    json["schedule"][fmt::format("{}_read_bytes", name_of(tier))] = cost.of(tier).read_bytes;
    json["schedule"][fmt::format("{}_written_bytes", name_of(tier))] = cost.of(tier).written_bytes;
  }
  json["schedule"]["moves"] = schedule->moves;
  return json.dump(1) + "\n";
}

std::string as_text(const TrainingPlan& plan, std::span<const int> stages, const PrintedSchedule* schedule) {
  std::string text = plan_table(plan, stages);
  if (schedule == nullptr) return text;
  const ScheduleCost& cost = schedule->cost;
  text += fmt::format("\nschedule: {} gathers, {} reductions, {} sent, {} gathered at most\n", cost.num_gathers,
                      cost.num_reduces, format_bytes(cost.sent_bytes), format_bytes(cost.gathered_peak_bytes));
  if (cost.crossing_bytes > 0)
    text += fmt::format("  beside that {} to each neighbouring copy\n", format_bytes(cost.crossing_bytes));
  if (cost.num_part_gathers > 0)
    text += fmt::format("  of these gathers {} within {} ranks, which send {} of it\n", cost.num_part_gathers,
                        plan.options.secondary_group, format_bytes(cost.part_sent_bytes));
  for (const Tier tier : kLowerTiers) {
    if (cost.of(tier) == TierTraffic{}) continue;
    text += fmt::format("  a step reads {} of states from {} and writes {}\n", format_bytes(cost.of(tier).read_bytes),
                        name_of(tier), format_bytes(cost.of(tier).written_bytes));
  }
  return text + schedule->moves;
}

// Returns the threads of a rank on this machine, because a plan can be for a larger machine.
int threads_at_once(int threads) {
  return std::min(threads, num_usable_cores());
}

// Returns the threads per core if all ranks are on this machine.
double crowd_of(int ranks, int threads) {
  return std::max(1.0, static_cast<double>(ranks) * threads_at_once(threads) / num_usable_cores());
}

// Returns the rates of this machine that a run of equally many ranks measured here. If there are none, this process
// probes them, and the ranks share the disk's rates.
TierRates rates_here(const AttachOptions& options, const Config& config, int ranks, int threads) {
  const OffloadOptions& offload = options.offload;
  const std::string machine = machine_identity(offload, options.optimizer, ranks, threads);
  TierRates rates;
  if (!config.zero.probe_rates) rates = RateCache().find(machine, !offload.disk.empty()).value_or(TierRates{});
  if (rates.update_numel == 0) {
    rates = probe_rates(nullptr, offload, *rule_of(options), threads_at_once(threads), offload.disk_memory);
    for (const Tier tier : kRequestTiers) {
      rates.requests[tier].read /= ranks;
      rates.requests[tier].write /= ranks;  // the share is a ratio, and stays
    }
    rates.update_numel /= crowd_of(ranks, threads);
  }
  rates.link_up = rates.link_down = offload.link_bytes_per_second;
  return rates;
}

// Checks the profile: a run on a CPU has no times of a GPU, and a run on a GPU has none of a CPU.
void require_profile_of(bool gpu, const Computation& run, const std::string& path) {
  if (run.on_gpu == gpu && (!gpu || run.rates.device_update_numel > 0)) return;
  throw ConfigError("--profile", path,
                    run.on_gpu != gpu ? fmt::format("is of a run on a {}, and the plan is for a {}",
                                                    run.on_gpu ? "GPU" : "CPU", gpu ? "GPU" : "CPU")
                                      : "has no rates of its GPU (the host runs your own update rule)",
                    gpu ? "name the folder of a run on a GPU of this kind, with an update rule that runs there"
                        : "name the folder of a run with run.device = cpu, or plan with --run.device cuda");
}

// Returns the computation of the run that --profile names; else an estimate from the model's flops and the cores that a
// rank would have here.
Computation computation_of(const PlanRequest& request, const TrainingPlan& plan, const Task& task, const Trace& trace,
                           int threads) {
  const StepOptions& train = request.loaded.config.train;
  const auto samples = static_cast<double>(most_samples(train) * train.accumulate);
  if (!request.profile.empty()) {
    Computation run =
        computation_of_run(request.profile, plan.units.size(), samples * static_cast<double>(task.tokens_per_sample()));
    require_profile_of(plan.machine->ranks_on_gpu > 0, run, request.profile);
    return run;
  }
  at::set_num_threads(threads_at_once(threads));
  double flops_per_second = 0;  // the best of a few probes, because other programs may use these cores briefly
  for (int probe = 0; probe < 3; ++probe) flops_per_second = std::max(flops_per_second, probe_matmul_flops());
  Computation computation = estimated_computation({.flops = task.flops_per_sample() * samples,
                                                   .computes_again = request.loaded.config.model.checkpoint_activations,
                                                   .flops_per_second = flops_per_second,
                                                   .crowd = crowd_of(plan.machine->ranks, threads)});
  estimate_uses(trace, plan.units, computation.step);
  return computation;
}

// Returns the number of elements that a rank updates in a step.
std::int64_t updated_numel(const TrainingPlan& plan) {
  const bool sharded = placement_of(plan).optimizer_sharded;
  const int shard = mesh_of(plan).shard;
  std::int64_t numel = 0;
  for (const Unit& unit : plan.units) {
    if (unit.trainable) numel += sharded ? shard_numel(unit, shard) : padded_numel(unit, shard);
  }
  return numel;
}

// Returns the rate of updates, with the time in which a rule (Muon) completes whole matrices. Each shape is probed
// once.
double with_matrices(double update_numel, const TrainingPlan& plan, int threads) {
  const auto rule = rule_of(plan.options);
  if (rule->matrices() == nullptr) return update_numel;
  std::map<std::pair<std::int64_t, std::int64_t>, double> known;
  const double seconds =
      matrix_cost(plan.units, mesh_of(plan).shard, placement_of(plan), [&](const MatrixShape& matrix) {
        const auto [place, is_new] = known.try_emplace({matrix.rows, matrix.columns}, 0);
        if (is_new) place->second = probe_completion_seconds(*rule->matrices(), matrix, threads_at_once(threads));
        return place->second;
      });
  if (seconds == 0) return update_numel;
  const auto numel = static_cast<double>(updated_numel(plan));
  return numel / (numel / update_numel + crowd_of(plan.machine->ranks, threads) * seconds);
}

// Takes the update rate of the run that --profile names, if there is one. On a GPU, also takes the other rates that the
// run probed there.
void take_update_rate(const TrainingPlan& plan, TierRates& rates, int threads) {
  const Computation& run = plan.computation;
  const bool of_run = run.update_seconds > 0 && run.world == plan.world;
  const double as_the_run = of_run ? static_cast<double>(updated_numel(plan)) / run.update_seconds : 0;
  if (run.on_gpu) {
    rates = run.rates;
    if (of_run && run.states_on_device) rates.device_update_numel = as_the_run;
  } else {
    rates.update_numel = of_run ? as_the_run : with_matrices(rates.update_numel, plan, threads);
  }
}

// Returns why the rate of a disk with states is not known; "" if it is.
std::string why_without_disk(const TierRates& rates, const TrainingPlan& plan) {
  const bool uses =
      state_bytes(plan.units, mesh_of(plan).shard, placement_of(plan), optimizer_spec(plan), Tier::kDisk).total() > 0;
  if (!uses || rates.requests.disk.read > 0) return "";
  return "which may be too small for a probe";
}

// Places the states. If a run would be refused for this machine's memory, the plan does not fit, as with too little
// main memory. With request.trains, the plan is also refused.
void place_or_say_why_not(TrainingPlan& plan, EngineHost known, const PlanRequest& request, const Trace& trace) {
  const std::vector<UnitTiers> asked = plan.tiers;
  const bool from_run = plan.computation.from == ComputationFrom::kRun;
  try {
    place_as_run(plan, std::move(known), trace, {.step = plan.computation.step, .from_run = from_run});
  } catch (const ConfigError& error) {
    if (request.trains || !plan.machine->has_known_gpu() ||
        plan.options.device_memory.kind != MemoryBudget::Kind::kAuto)
      throw;
    plan.tiers = asked;
    plan.beside.reset();
    plan.movable_disk_bytes = 0;
    plan.refused = error.what();
  }
}

// Places the states, and predicts the time of a step.
void place_and_predict(TrainingPlan& plan, const PlanRequest& request, const Task& task, const Trace& trace) {
  require_room_for_fractions(plan);       // before anything is probed
  const int ranks = plan.machine->ranks;  // ranks of a machine
  const int threads = attach_options(request.loaded.config, ranks).threads;
  EngineHost known{.activation_bytes = activations_beside_budget(request.loaded.config),
                   .rates = rates_here(plan.options, request.loaded.config, ranks, threads),
                   .probes = true};
  plan.computation = computation_of(request, plan, task, trace, threads);
  const bool ran = plan.computation.from == ComputationFrom::kRun;
  take_update_rate(plan, known.rates, threads);
  if (ran) known.profile = plan.computation.step;
  describe_device(plan, known);
  const TierRates rates = known.rates;
  place_or_say_why_not(plan, std::move(known), request, trace);
  plan.without_disk = why_without_disk(rates, plan);
}

// Returns the seconds of a worker's passes. Servers update its states.
double passes_here(const TrainingPlan& plan, const PlanRequest& request, const Task& task) {
  const int threads = attach_options(request.loaded.config, plan.machine->ranks).threads;
  const StepProfile step = computation_of(request, plan, task, Trace{}, threads).step;
  return step.forward_seconds + step.backward_seconds;
}

// Returns the seconds of a step's computation on a rank of the cluster: from the cluster's own flops, else as on this
// machine.
double computation_on(const Cluster& cluster, const TrainingPlan& plan, const PlanRequest& request, const Task& task) {
  if (cluster.flops == 0 && plan.machine->ranks_on_gpu > 0 && !plan.predicted)
    throw ConfigError("cluster.flops", "", "the file does not set it, and this machine has only the speed of its CPU",
                      "write the GPU's, in products of matrices of the run's type: for example flops = 4e14");
  if (cluster.flops == 0) return plan.predicted ? plan.predicted->total() : passes_here(plan, request, task);
  const StepOptions& train = request.loaded.config.train;
  const auto samples = static_cast<double>(most_samples(train) * train.accumulate);
  return task.flops_per_sample() * samples * (request.loaded.config.model.checkpoint_activations ? 4.0 / 3 : 1) /
         cluster.flops;
}

// Removes the predicted time, because this machine's rates are its CPU's. The time from a run on a GPU stays, because
// that run probed its GPU's rates.
void leave_out_time(TrainingPlan& plan) {
  if (plan.computation.from == ComputationFrom::kRun) return;
  plan.predicted.reset();
  plan.why_not_predicted =
      "not known: the speed of a GPU is not probed here. --profile RUN has it from a run on such a GPU. A file with "
      "flops (--cluster; for one GPU with hosts = 1 and ranks = 1) gives the time of its matrix products";
}

std::string steps_text(std::int64_t steps, const Config& config) {
  return fmt::format("\nsteps: {} make {} epochs of the training data\n", format_count(steps), config.train.epochs);
}

int print_pipeline(const PlanRequest& request, const AttachOptions& attach, std::optional<std::int64_t> steps,
                   const std::optional<CheckedRun>& run) {
  const PipelineForecast forecast = forecast_pipeline(request, attach);
  std::optional<DryRun> dry_run;
  if (run) dry_run = dry_run_of_pipeline(*run, static_cast<int>(request.world));
  if (request.json) {
    nlohmann::ordered_json json = forecast_json(forecast);
    if (steps) json["steps"] = *steps;
    if (dry_run) json["run"] = dry_run_json(*dry_run);
    std::cout << json.dump(1) << "\n";
    return 0;
  }
  std::cout << forecast_text(forecast);
  for (const std::string& note : request.loaded.notes) std::cout << fmt::format("\nnote: {}\n", note);
  if (dry_run) std::cout << "\n" << dry_run_text(*dry_run);
  if (steps) std::cout << steps_text(*steps, request.loaded.config);
  return 0;
}

int print_plan(const PlanRequest& request) {
  const Config& config = request.loaded.config;
  const std::optional<std::int64_t> steps = steps_of_epochs(request.loaded);
  AttachOptions attach = attach_options(config, 1);
  require_here(attach.offload);
  std::optional<CheckedRun> run;
  const auto local_ranks = static_cast<int>(request.world / request.machines);
  if (request.trains) run = check_run(config, local_ranks, steps, request.overwrites);
  if (config.parallel.pipeline > 1) return print_pipeline(request, attach, steps, run);
  const HostGroup group = planned_group(request);
  if (group.ranks > 0) attach.group = group.ranks;
  auto [shape, task, plan] = planned_model(request, attach);
  const bool on_gpu = plan.machine->ranks_on_gpu > 0;
  plan.linked = on_gpu && config.comm.transport == "nccl";
  const Trace trace = may_leave_device(plan) || request.schedule ? trace_of(request, *task, shape, attach) : Trace{};
  if (plan.workers == 0) place_and_predict(plan, request, *task, trace);
  if (on_gpu) leave_out_time(plan);
  const Schedule schedule = schedule_of(plan, trace);
  constexpr std::array kStages{0, 1, 2, 3};
  std::optional<PrintedSchedule> printed;
  if (request.schedule)
    printed = {simulate(schedule, plan.units, mesh_of(plan).shard, optimizer_spec(plan)),
               print_schedule(schedule, plan.units)};
  const PrintedSchedule* shown = printed ? &*printed : nullptr;
  std::optional<ClusterPlan> cluster;
  if (request.cluster)
    cluster = plan_on(plan, *request.cluster, computation_on(*request.cluster, plan, request, *task));
  std::optional<DryRun> dry_run;
  if (run) dry_run = dry_run_of(plan, config, *run);
  if (request.json) {
    std::cout << as_json(plan, kStages, shown, steps, cluster, dry_run);
    return 0;
  }
  std::cout << as_text(plan, kStages, shown);
  for (const std::string& note : request.loaded.notes) std::cout << fmt::format("\nnote: {}\n", note);
  if (!group.line.empty()) std::cout << "\n" << wrapped(group.line, 2);
  if (cluster) std::cout << "\n" << cluster_table(*cluster);
  if (dry_run) std::cout << "\n" << dry_run_text(*dry_run);
  if (steps) std::cout << steps_text(*steps, config);
  return 0;
}

}  // namespace

int plan_verb(const PlanRequest& request) {
  if (request.trains) {  // passes are tried with a run's memory settings
    keep_heap();
    keep_large_blocks();
  }
  int status = 0;
  with_origins(request.loaded.origins, [&] {
    const DType dtype = attach_options(request.loaded.config, 1).dtype.value_or(DType::kFloat32);
    with_operators_of(dtype, [&] { status = print_plan(request); });
    return status;
  });
  return status;
}

}  // namespace zero::cli
