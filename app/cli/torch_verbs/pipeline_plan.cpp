#include "app/cli/torch_verbs/pipeline_plan.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include "zero/base/error/error.h"
#include "zero/base/process/machine.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/engine/place/stage_cost.h"
#include "zero/plan/units/mesh.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/pipeline/forward/forward_plan.h"
#include "zero/torch/pipeline/forward/held_layouts.h"
#include "zero/torch/pipeline/forward/operator_timer.h"

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

// Units that are whole at once, in the budget of a section: as an engine gathers them.
std::int64_t gathered_at_once(const std::vector<Unit>& units, int world, const Placement& placement,
                              const MemoryBudget& budget, std::int64_t held) {
  if (!placement.parameter_sharded) return 0;
  std::int64_t all = 0, largest = 0;
  for (const Unit& unit : units) {
    all += gathered_bytes(unit, world);
    largest = std::max(largest, gathered_bytes(unit, world));
  }
  if (budget.kind == MemoryBudget::Kind::kAuto) return all;
  if (budget.kind == MemoryBudget::Kind::kMin) return largest;
  return std::clamp(budget.bytes - held, largest, all);
}

// Adds what one section's engine holds and sends. `of_rank`: elements of all sections of the rank, which share its
// budgets.
void count_section(PipelineForecast::RankBytes& rank, const std::vector<ParamSpec>& mine, std::int64_t of_rank,
                   int lines, AttachOptions attach) {
  std::int64_t numel = 0;
  for (const ParamSpec& spec : mine) numel += spec.numel();
  attach.device_memory.bytes =
      static_cast<std::int64_t>(static_cast<double>(attach.device_memory.bytes) * static_cast<double>(numel) /
                                static_cast<double>(std::max<std::int64_t>(of_rank, 1)));
  const Mesh mesh = mesh_of(lines, attach.group);
  const std::vector<Unit> units = units_of(mine, lines, attach);
  const Placement placement = placement_at(attach, mesh, attach.stage);
  const StageCost cost = cost_of(units, mesh, attach, placement, attach.stage);
  const bool is_min = attach.device_memory.kind == MemoryBudget::Kind::kMin;
  const std::int64_t staging = staging_bytes(units, mesh.shard, placement, is_min);
  rank.parameters += numel;
  rank.states += cost.state.total();
  rank.staging += staging;
  rank.gathered += gathered_at_once(units, mesh.shard, placement, attach.device_memory, cost.state.total() + staging);
  rank.sent_states += cost.sent;
}

void count_ranks(PipelineForecast& forecast, const std::vector<ParamSpec>& specs, const AttachOptions& attach) {
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
    for (std::size_t param = 0; param < specs.size(); ++param)
      if (forecast.passes.sections.home_of_param[param] == section) mine.push_back(specs[param]);
    if (!mine.empty()) count_section(rank, mine, numel[position], forecast.lines, attach);
    const auto at = static_cast<std::size_t>(section);
    rank.sent_crossing += (crossing.forward[at] + crossing.backward[at]) * forecast.passes.plan.micros;
  }
  for (std::size_t position = 0; position < forecast.ranks.size(); ++position)
    forecast.ranks[position].activations = forecast.passes.time.ranks[position].activation_bytes;
}

std::string sections_of(const PipelineForecast& forecast, int position) {
  return fmt::format("{}", fmt::join(forecast.passes.plan.sections_of(position), ", "));
}

double bubble_share(const PipelineForecast& forecast) {
  return forecast.passes.time.seconds > 0 ? forecast.passes.time.bubble / forecast.passes.time.seconds : 0;
}

}  // namespace

PipelineForecast forecast_pipeline(const PlanRequest& request, const AttachOptions& attach) {
  const Config& config = request.loaded.config;
  refuse_flag(request.schedule, "--schedule", "");
  refuse_flag(!request.profile.empty(), "--profile", request.profile);
  ModelOptions model = model_options(config);
  model.init.clear();  // only shapes are needed, not weights
  const SampleShape shape = planned_shape(config);
  const auto task = make_task(model, shape, 0);
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
  count_ranks(forecast, parameters.specs, attach);
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
                   format_bytes(rank.states), format_bytes(rank.gathered), format_bytes(rank.staging),
                   format_bytes(rank.activations), format_bytes(rank.total()), format_bytes(rank.sent_crossing),
                   format_bytes(rank.sent_states));
  }
  text +=
      "bytes of a rank of each position; gathered: units that are whole at once; staging: gradients before their sum;\n"
      "activations: of all micro-batches that it holds at once; total: the most that the rank may need\n\n";
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

std::string forecast_json(const PipelineForecast& forecast) {
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
    json["positions"].push_back(
        {{"sections", forecast.passes.plan.sections_of(position)},
         {"parameters", rank.parameters},
         {"state_bytes", rank.states},
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
  return json.dump(1) + "\n";
}

}  // namespace zero::cli
