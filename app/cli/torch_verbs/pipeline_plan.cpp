#include "app/cli/torch_verbs/pipeline_plan.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/options/engine_host.h"
#include "zero/engine/options/leaf_options.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/engine/place/placer.h"
#include "zero/optim/rule/update_rule.h"
#include "zero/plan/units/estimate.h"
#include "zero/plan/units/mesh.h"
#include "zero/plan/units/partition.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/pipeline/forward/held_layouts.h"
#include "zero/torch/pipeline/forward/operator_timer.h"
#include "zero/torch/pipeline/section_options.h"

#include "app/cli/torch_verbs/job.h"
#include "app/report/screen/wrapped.h"
#include "app/train/tasks/model_kind.h"

namespace zero::cli {
namespace {

torch::Tensor loss_of_zeros(Task& task, const SampleShape& shape, std::int64_t batch) {
  if (shape.context > 0) {
    const auto tokens = at::zeros({batch, shape.context}, at::kLong);
    return task.loss(tokens, shape.vocab > 0 ? at::zeros({batch}, at::kLong) : tokens);
  }
  const auto target = shape.classes > 0 ? at::zeros({batch}, at::kLong) : at::zeros({batch, 1});
  return task.loss(at::zeros({batch, shape.features}), target);
}

void refuse_flag(bool given, std::string_view flag, std::string_view value) {
  if (given)
    throw ConfigError(flag, value, "a plan of a pipeline does not have it yet",
                      "leave it out, or set parallel.pipeline = 1");
}

// A peak counts the micro-batches of each section of a rank.
int held_micros(const PipelineForecast& forecast, int position) {
  return forecast.passes.time.ranks[static_cast<std::size_t>(position)].in_flight;
}

// `per_byte` and `latency` of messages between neighbours: those between machines, if any neighbours are on two. The
// lines of a machine share its link.
LinkSeconds link_of(const Cluster& cluster, int lines, int positions) {
  const int world = lines * positions;
  bool leaves = false;
  for (int rank = 0; rank < world; ++rank)
    leaves = leaves || cluster.host_of(rank) != cluster.host_of((rank + lines) % world);
  if (!leaves) return {.latency = 0, .per_byte = cluster.within > 0 ? 1 / cluster.within : 0};
  return {.latency = cluster.latency, .per_byte = std::min(lines, cluster.ranks) / cluster.network};
}

// Bytes of units that are whole at once, in the budget of a section: as an engine gathers them.
std::int64_t gathered_at_once(const std::vector<Unit>& units, int shard, const Placement& placement,
                              const GatherBudget& budget) {
  if (!placement.parameter_sharded) return 0;
  std::int64_t all = 0, largest = 0;
  for (const Unit& unit : units) {
    all += gathered_bytes(unit, shard);
    largest = std::max(largest, gathered_bytes(unit, shard));
  }
  const std::int64_t parts = budget.keeps_parts ? secondary_bytes(units, shard, placement) : 0;
  return (budget.is_min() ? largest : std::min(budget.capacity_bytes, all)) + parts;
}

// The placement whose bytes a step sends. Weights that stay gathered from one use to the next are gathered once, as at
// stage 2.
Placement sent_as(const std::vector<Unit>& units, int shard, Placement placement, const GatherBudget& budget) {
  std::int64_t all = 0;
  for (const Unit& unit : units) all += gathered_bytes(unit, shard);
  const bool trains_all = std::ranges::all_of(units, &Unit::trainable);  // a frozen unit is always gathered
  if (trains_all && !budget.is_min() && budget.capacity_bytes >= all) placement.parameter_sharded = false;
  return placement;
}

// Adds what one section's engine holds and sends. Makes the checks of host, disk and device that the engine makes.
// `options`: the section's options. `known`: facts of this machine; gets the rates that a placement probed.
void count_section(PipelineForecast::RankBytes& rank, const std::vector<ParamSpec>& mine, int lines,
                   const AttachOptions& options, EngineHost& known) {
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  const Mesh mesh = mesh_of(lines, options);
  const std::vector<Unit> units = units_of(mine, lines, options);
  const auto rule = rule_of(options);
  const OptimizerSpec spec = spec_of(*rule);
  const Placer placer(nullptr, mesh, options, units, *rule, known);
  known.rates = placer.rates();
  const Placement& placement = placer.placement();
  const Placement later = placer.most_away();
  require_disk(options.offload, state_bytes(units, mesh.shard, later, spec, Tier::kDisk).total());
  const int depth = tiles_ahead(options.offload.host_memory, units, mesh.shard, placement, later, spec, kNoLimit);
  const GatherBudget budget =
      gather_budget(options.device_memory, units, mesh.shard, placement, spec, options.stage, kNoLimit);
  for (const ParamSpec& param : mine) rank.parameters += param.numel();
  for (const Tier tier : kAllTiers)
    rank.states_on[tier] += state_bytes(units, mesh.shard, placement, spec, tier).total();
  rank.transfers += tile_bytes(units, mesh.shard, later, spec, depth);
  rank.staging += staging_bytes(units, mesh.shard, placement, budget.is_min());
  rank.gathered += gathered_at_once(units, mesh.shard, placement, budget);
  const Placement sent = sent_as(units, mesh.shard, placement, budget);
  rank.sent_states += sent_bytes(units, mesh.shard, sent) + sent_between_copies(units, mesh, sent);
}

void count_ranks(PipelineForecast& forecast, const ModuleParameters& parameters, const AttachOptions& attach,
                 EngineHost known) {
  const std::vector<ParamSpec>& specs = parameters.specs;
  const auto position_of = [&](int section) {
    return forecast.passes.plan.rank_of_section[static_cast<std::size_t>(section)];
  };
  std::vector<std::int64_t> numel(static_cast<std::size_t>(forecast.passes.plan.ranks), 0);
  for (std::size_t param = 0; param < specs.size(); ++param)
    numel[static_cast<std::size_t>(position_of(forecast.passes.sections.home_of_param[param]))] += specs[param].numel();
  forecast.ranks.resize(static_cast<std::size_t>(forecast.passes.plan.ranks));
  const CrossingBytes crossing =
      crossing_bytes(forecast.graph, forecast.passes.sections, forecast.passes.plan.rank_of_section);
  for (int section = 0; section < forecast.passes.plan.num_sections(); ++section) {
    const auto position = static_cast<std::size_t>(position_of(section));
    PipelineForecast::RankBytes& rank = forecast.ranks[position];
    std::vector<ParamSpec> mine;
    ModelTensors tensors;
    std::int64_t own = 0;
    for (std::size_t param = 0; param < specs.size(); ++param) {
      if (forecast.passes.sections.home_of_param[param] != section) continue;
      mine.push_back(specs[param]);
      own += specs[param].numel();
      tensors.parameters.push_back({.name = specs[param].name, .tensor = parameters.tensors[param]});
      for (const std::string& alias : specs[param].aliases)
        tensors.parameters.push_back({.name = alias, .tensor = parameters.tensors[param]});
    }
    const double share = own == numel[position] ? 1 : static_cast<double>(own) / static_cast<double>(numel[position]);
    if (!mine.empty()) count_section(rank, mine, forecast.lines, section_options(attach, tensors, share), known);
    const auto at = static_cast<std::size_t>(section);
    rank.sent_crossing += (crossing.forward[at] + crossing.backward[at]) * forecast.passes.plan.micros;
  }
  for (std::size_t position = 0; position < forecast.ranks.size(); ++position)
    forecast.ranks[position].activations = forecast.passes.time.ranks[position].activation_bytes;
}

// Compares the memory of the fullest machine with that of this one, or of the cluster's file.
void compare_memory(PipelineForecast& forecast, const PlanRequest& request) {
  const auto of_machine = static_cast<int>(request.world / request.machines);
  PipelineForecast::Memory memory{.ranks = of_machine, .free = available_memory()};
  if (request.cluster) memory.free = request.cluster->memory * of_machine;
  for (int first = 0; first < static_cast<int>(request.world); first += of_machine) {
    std::int64_t needed = 0;
    for (int rank = first; rank < first + of_machine; ++rank)
      needed += forecast.ranks[static_cast<std::size_t>(rank / forecast.lines)].total();
    memory.needed = std::max(memory.needed, needed);
  }
  if (memory.free > 0) forecast.memory = memory;
}

std::string sections_of(const PipelineForecast& forecast, int position) {
  return fmt::format("{}", fmt::join(forecast.passes.plan.sections_of(position), ", "));
}

// Lines about states that are not on the device.
std::string tiers_text(const PipelineForecast& forecast) {
  std::string text;
  for (std::size_t position = 0; position < forecast.ranks.size(); ++position) {
    const PipelineForecast::RankBytes& rank = forecast.ranks[position];
    if (rank.states_on.total() - rank.states_on.device + rank.transfers == 0) continue;
    text += fmt::format("position {}: ", position);
    for (const Tier tier : kLowerTiers)
      text += fmt::format("{} {} are {}", format_bytes(rank.states_on[tier]),
                          tier == kLowerTiers.front() ? "of the states" : "more", facts_of(tier).phrase) +
              (tier == kLastTier ? "" : "; ");
    text += rank.transfers > 0
                ? fmt::format(", and the total includes {} for transfers\n", format_bytes(rank.transfers))
                : "\n";
  }
  return text;
}

std::string memory_text(const PipelineForecast& forecast) {
  if (!forecast.memory) return "";
  const PipelineForecast::Memory& memory = *forecast.memory;
  return fmt::format("memory: a machine with {} needs at most {}; {} are free{}: {}\n",
                     format_count(memory.ranks, "rank"), format_bytes(memory.needed), format_bytes(memory.free),
                     forecast.has_links ? " there" : " here", memory.fits() ? "it fits" : "it may not fit");
}

double bubble_share(const PipelineForecast& forecast) {
  return forecast.passes.time.seconds > 0 ? forecast.passes.time.bubble / forecast.passes.time.seconds : 0;
}

}  // namespace

PipelineForecast forecast_pipeline(const PlanRequest& request, const AttachOptions& of_run) {
  const Config& config = request.loaded.config;
  refuse_flag(request.schedule, "--schedule", "");
  refuse_flag(!request.profile.empty(), "--profile", request.profile);
  ModelOptions model = model_options(config);
  model.init.clear();  // only shapes are needed, not weights
  const SampleShape shape = planned_shape(config);
  const auto task = make_task(model, shape, 0);
  const AttachOptions attach = settle_leaves(of_run, static_cast<int>(request.world) / config.parallel.pipeline);
  const ModuleParameters parameters = parameters_of(task->module(), attach.dtype);
  require_members(parameters.specs, attach.groups);
  require_matrix(parameters.specs, attach);
  PipelineForecast forecast{.model = model.name};
  forecast.lines = static_cast<int>(request.world) / config.parallel.pipeline;
  forecast.stage = attach.stage;
  forecast.batch = config.train.batch;
  forecast.has_links = request.cluster.has_value();
  OperatorTimer timer;
  const bool measures = needs_seconds(config.parallel) || request.cluster.has_value();
  require_pipeline_options(attach, parameters.tensors);
  if (measures) {  // with the cores that a rank would have here
    const int threads = attach_options(config, static_cast<int>(request.world / request.machines)).threads;
    at::set_num_threads(std::min(threads, num_usable_cores()));
  }
  {
    const HeldLayouts layouts(parameters);
    forecast.graph =
        learn_forward(
            parameters, [&] { return loss_of_zeros(*task, shape, config.train.batch); }, measures ? &timer : nullptr)
            .graph;
  }
  OperatorTimer::fill_gaps(forecast.graph);
  const LinkSeconds link =
      request.cluster ? link_of(*request.cluster, forecast.lines, config.parallel.pipeline) : LinkSeconds{};
  forecast.passes = plan_passes(forecast.graph, config.parallel, attach.accumulate, link);
  count_ranks(forecast, parameters, settle_leaves(attach, forecast.lines),
              {.local_world = static_cast<int>(request.world / request.machines)});
  compare_memory(forecast, request);
  forecast.notes = notes_on(forecast.passes, config.comm.timeout);
  return forecast;
}

std::string forecast_text(const PipelineForecast& forecast) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{} in {}, {} of {}, stage {}\n", forecast.model,
                 format_count(forecast.passes.plan.num_sections(), "section"), format_count(forecast.lines, "line"),
                 format_count(forecast.passes.plan.ranks, "rank"), forecast.stage);
  fmt::format_to(out, "order {}, {} micro-batches of {}; bubble {:.1f} % of a step, by the operators' {}{}\n\n",
                 name_of(forecast.passes.order, forecast.passes.plan.depth), forecast.passes.plan.micros,
                 format_count(forecast.batch, "sample"), 100 * bubble_share(forecast),
                 forecast.passes.is_measured ? "seconds on this machine" : "work",
                 forecast.has_links ? " and the cluster's links" : "");
  const std::string orders = order_table(forecast.passes);
  if (!orders.empty()) text += orders + "\n";
  constexpr std::string_view kRow = "{:>8} {:>9} {:>11} {:>10} {:>10} {:>10} {:>12} {:>10} {:>12} {:>11}\n";
  fmt::format_to(out, kRow, "position", "sections", "parameters", "states", "gathered", "staging", "activations",
                 "total", "sent: lines", "sent: ZeRO");
  for (int position = 0; position < forecast.passes.plan.ranks; ++position) {
    const PipelineForecast::RankBytes& rank = forecast.ranks[static_cast<std::size_t>(position)];
    fmt::format_to(out, kRow, position, sections_of(forecast, position), format_count(rank.parameters),
                   format_bytes(rank.states()), format_bytes(rank.gathered), format_bytes(rank.staging),
                   format_bytes(rank.activations), format_bytes(rank.total()), format_bytes(rank.sent_crossing),
                   format_bytes(rank.sent_states));
  }
  text +=
      "bytes of a rank of each position; gathered: units that are whole at once; staging: gradients before their sum;\n"
      "activations: of all micro-batches that it holds at once; total: the most memory that the rank may need\n";
  text += tiers_text(forecast) + memory_text(forecast) + "\n";
  for (const std::string& note : forecast.notes) text += wrapped("note: " + note, 2);
  if (!forecast.notes.empty()) text += "\n";
  for (int section = 0; section < forecast.passes.sections.count; ++section)
    fmt::format_to(out, "section {} at position {}: {}{}\n", section,
                   forecast.passes.plan.rank_of_section[static_cast<std::size_t>(section)],
                   format_count(std::ranges::count(forecast.passes.sections.of_operator, section), "operator"),
                   forecast.passes.sections.has_lookup && section == 0 ? ", lookups of tied parameters" : "");
  for (const Crossing& crossing : forecast.passes.sections.crossings)
    fmt::format_to(out, "from section {} to {}: result of {}, {} a micro-batch\n", crossing.from,
                   fmt::join(crossing.to, ", "),
                   forecast.graph.operators[static_cast<std::size_t>(crossing.made_by)].name,
                   format_bytes(forecast.graph.values[static_cast<std::size_t>(crossing.value)].bytes));
  for (std::size_t position = 0; position < forecast.passes.plan.passes.size(); ++position)
    fmt::format_to(out, "position {}: {}\n", position,
                   text_of(forecast.passes.plan.passes[position],
                           forecast.passes.plan.num_sections() > forecast.passes.plan.ranks));
  return text;
}

nlohmann::ordered_json forecast_json(const PipelineForecast& forecast) {
  nlohmann::ordered_json json{{"model", forecast.model},
                              {"pipeline", forecast.passes.plan.ranks},
                              {"lines", forecast.lines},
                              {"stage", forecast.stage},
                              {"schedule", name_of(forecast.passes.order)},
                              {"depth", forecast.passes.plan.depth},
                              {"micro_batches", forecast.passes.plan.micros},
                              {"bubble", bubble_share(forecast)}};
  for (int position = 0; position < forecast.passes.plan.ranks; ++position) {
    const PipelineForecast::RankBytes& rank = forecast.ranks[static_cast<std::size_t>(position)];
    nlohmann::ordered_json& row =
        json["positions"].emplace_back(nlohmann::ordered_json{{"sections", forecast.passes.plan.sections_of(position)},
                                                              {"parameters", rank.parameters},
                                                              {"state_bytes", rank.states_on.total()}});
    for (const Tier tier : kLowerTiers) row[fmt::format("{}_state_bytes", name_of(tier))] = rank.states_on[tier];
    row.update({{"transfer_bytes", rank.transfers},
                {"gathered_bytes", rank.gathered},
                {"staging_bytes", rank.staging},
                {"most_activation_bytes", rank.activations},
                {"total_bytes", rank.total()},
                {"micro_batches_held", held_micros(forecast, position)},
                {"sent_crossing_bytes", rank.sent_crossing},
                {"sent_state_bytes", rank.sent_states},
                {"passes", text_of(forecast.passes.plan.passes[static_cast<std::size_t>(position)],
                                   forecast.passes.plan.num_sections() > forecast.passes.plan.ranks)}});
  }
  for (const OrderTrial& trial : forecast.passes.trials) {
    nlohmann::ordered_json order{{"order", name_of(trial.order)}, {"depth", trial.depth}, {"sections", trial.sections}};
    if (trial.time.seconds > 0) {
      order["seconds"] = trial.time.seconds;
      order["bubble"] = trial.time.bubble / trial.time.seconds;
      order["activation_bytes"] = trial.activation_bytes;
      for (const RankTime& rank : trial.time.ranks) order["micro_batches_held"].push_back(rank.in_flight);
    }
    if (!trial.skipped.empty()) order["skipped"] = trial.skipped;
    json["orders"].push_back(std::move(order));
  }
  json["notes"] = forecast.notes;
  json["crossings"] = nlohmann::ordered_json::array();
  for (const Crossing& crossing : forecast.passes.sections.crossings)
    json["crossings"].push_back(
        {{"from", crossing.from},
         {"to", crossing.to},
         {"operator", forecast.graph.operators[static_cast<std::size_t>(crossing.made_by)].name},
         {"bytes", forecast.graph.values[static_cast<std::size_t>(crossing.value)].bytes}});
  if (forecast.memory)
    json["memory"] = {{"needed_bytes", forecast.memory->needed},
                      {"free_bytes", forecast.memory->free},
                      {"fits", forecast.memory->fits()}};
  return json;
}

}  // namespace zero::cli
