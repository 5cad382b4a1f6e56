#include "app/cli/torch_verbs/pipeline_plan.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <ATen/ops/zeros.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/place/stage_cost.h"
#include "zero/plan/units/mesh.h"
#include "zero/torch/module/module_parameters.h"
#include "zero/torch/pipeline/forward_plan.h"

#include "app/cli/torch_verbs/job.h"
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

// Forward, and each half of a backward pass, take as long as the section's share of the work says.
PassCosts costs_by_work(const Sections& sections) {
  double whole = 0;
  for (const double work : sections.work) whole += work;
  PassCosts costs;
  for (const double work : sections.work) costs.push_back({work / whole, work / whole, work / whole});
  return costs;
}

// By value: the activation checkpoint inside which it is made and used, so that it is not kept; -1: none.
std::vector<int> checkpoints_of_values(const ForwardGraph& graph) {
  std::vector<int> checkpoints(graph.values.size(), -1);
  for (std::size_t part = 0; part < graph.kept_together.size(); ++part) {
    const auto [first, end] = graph.kept_together[part];
    std::vector<bool> made(graph.values.size(), false);
    for (int op = 0; op < static_cast<int>(graph.operators.size()); ++op) {
      const bool inside = op >= first && op < end;
      if (inside)
        for (const int value : graph.operators[static_cast<std::size_t>(op)].outputs)
          made[static_cast<std::size_t>(value)] = true;
      if (op < end) continue;
      for (const int value : graph.operators[static_cast<std::size_t>(op)].inputs)
        made[static_cast<std::size_t>(value)] = false;
    }
    for (std::size_t value = 0; value < made.size(); ++value)
      if (made[value] && static_cast<int>(value) != graph.loss) checkpoints[value] = static_cast<int>(part);
  }
  return checkpoints;
}

struct ResultBytes {
  std::int64_t kept = 0;      // of one micro-batch, from its forward to its backward pass
  std::int64_t repeated = 0;  // of the largest activation checkpoint, during its second run
};

ResultBytes results_of(const ForwardGraph& graph, const Sections& sections, int section) {
  const std::vector<int> checkpoints = checkpoints_of_values(graph);
  std::vector<bool> counted(graph.values.size(), false);
  std::vector<std::int64_t> inside(graph.kept_together.size(), 0);
  ResultBytes bytes;
  for (std::size_t op = 0; op < graph.operators.size(); ++op) {
    if (sections.of_operator[op] != section) continue;
    for (const int value : graph.operators[op].outputs) {
      const auto at = static_cast<std::size_t>(value);
      if (std::exchange(counted[at], true)) continue;
      const int checkpoint = checkpoints[at];
      (checkpoint < 0 ? bytes.kept : inside[static_cast<std::size_t>(checkpoint)]) += graph.values[at].bytes;
    }
  }
  for (const std::int64_t each : inside) bytes.repeated = std::max(bytes.repeated, each);
  return bytes;
}

// Values that a section sends for one micro-batch, once to each other rank, and gradients that it returns.
std::int64_t crossing_bytes(const PipelineForecast& forecast, int section) {
  const auto position_of = [&](int of) { return forecast.plan.rank_of_section[static_cast<std::size_t>(of)]; };
  std::int64_t bytes = 0;
  for (const Crossing& crossing : forecast.sections.crossings) {
    const GraphValue& value = forecast.graph.values[static_cast<std::size_t>(crossing.value)];
    int before = crossing.from;
    std::vector<int> positions;
    for (const int to : crossing.to) {
      const int position = position_of(to);
      const bool is_new =
          position != position_of(crossing.from) && std::ranges::find(positions, position) == positions.end();
      if (crossing.from == section && is_new) bytes += value.bytes;
      if (is_new) positions.push_back(position);
      if (to == section && value.differentiable && position_of(before) != position) bytes += value.bytes;
      before = to;
    }
  }
  return bytes;
}

// A peak counts the micro-batches of each section of a rank.
int held_micros(const PipelineForecast& forecast, int position) {
  return forecast.time.ranks[static_cast<std::size_t>(position)].in_flight;
}

void count_ranks(PipelineForecast& forecast, const std::vector<ParamSpec>& specs, const AttachOptions& attach) {
  forecast.ranks.resize(static_cast<std::size_t>(forecast.plan.ranks));
  for (int section = 0; section < forecast.plan.num_sections(); ++section) {
    const int position = forecast.plan.rank_of_section[static_cast<std::size_t>(section)];
    PipelineForecast::RankBytes& rank = forecast.ranks[static_cast<std::size_t>(position)];
    std::vector<ParamSpec> mine;
    for (std::size_t param = 0; param < specs.size(); ++param)
      if (forecast.sections.home_of_param[param] == section) mine.push_back(specs[param]);
    if (!mine.empty()) {
      const Mesh mesh = mesh_of(forecast.lines, attach.group);
      const StageCost cost = cost_of(units_of(mine, forecast.lines, attach), mesh, attach,
                                     placement_at(attach, mesh, attach.stage), attach.stage);
      rank.states += cost.state.total();
      rank.sent_states += cost.sent;
    }
    for (const ParamSpec& spec : mine) rank.parameters += spec.numel();
    const ResultBytes results = results_of(forecast.graph, forecast.sections, section);
    rank.results = std::max(rank.results, results.kept * held_micros(forecast, position) + results.repeated);
    rank.sent_crossing += crossing_bytes(forecast, section) * forecast.plan.micros;
  }
}

std::string sections_of(const PipelineForecast& forecast, int position) {
  return fmt::format("{}", fmt::join(forecast.plan.sections_of(position), ", "));
}

double bubble_share(const PipelineForecast& forecast) {
  return forecast.time.seconds > 0 ? forecast.time.bubble / forecast.time.seconds : 0;
}

}  // namespace

PipelineForecast forecast_pipeline(const PlanRequest& request, const AttachOptions& attach) {
  const Config& config = request.loaded.config;
  refuse_flag(request.schedule, "--schedule", "");
  refuse_flag(!request.profile.empty(), "--profile", request.profile);
  refuse_flag(request.cluster.has_value(), "--cluster", "");
  ModelOptions model = model_options(config);
  model.init.clear();  // only shapes are needed, not weights
  const SampleShape shape = planned_shape(config);
  const auto task = make_task(model, shape, 0);
  const ModuleParameters parameters = parameters_of(task->module(), attach.dtype);
  PipelineForecast forecast{.model = model.name, .options = config.parallel};
  forecast.lines = static_cast<int>(request.world) / config.parallel.pipeline;
  forecast.stage = attach.stage;
  forecast.batch = config.train.batch;
  forecast.graph = learn_forward(parameters, [&] { return loss_of_zeros(*task, shape, config.train.batch); }).graph;
  const int sections = config.parallel.sections > 0
                           ? config.parallel.sections
                           : default_sections(config.parallel.schedule, config.parallel.pipeline);
  forecast.plan = build_pipeline(config.parallel.schedule, config.parallel.pipeline, sections, attach.accumulate);
  forecast.sections = cut_sections(forecast.graph, sections);
  if (forecast.sections.has_lookup) {
    const auto home = static_cast<std::size_t>(forecast.sections.home_of_lookup - 1);
    forecast.plan = with_lookup(forecast.plan, forecast.plan.rank_of_section[home]);
  }
  forecast.time = simulate(forecast.plan, costs_by_work(forecast.sections), {});
  count_ranks(forecast, parameters.specs, attach);
  return forecast;
}

std::string forecast_text(const PipelineForecast& forecast) {
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{} in {}, {} of {}, stage {}\n", forecast.model,
                 format_count(forecast.plan.num_sections(), "section"), format_count(forecast.lines, "line"),
                 format_count(forecast.plan.ranks, "rank"), forecast.stage);
  fmt::format_to(out, "order {}, {} micro-batches of {}; bubble {:.1f} % of a step, by the operators' work\n\n",
                 name_of(forecast.options.schedule), forecast.plan.micros, format_count(forecast.batch, "sample"),
                 100 * bubble_share(forecast));
  fmt::format_to(out, "{:>8} {:>10} {:>12} {:>12} {:>14} {:>12} {:>12}\n", "position", "sections", "parameters",
                 "states", "results, most", "sent: lines", "sent: ZeRO");
  for (int position = 0; position < forecast.plan.ranks; ++position) {
    const PipelineForecast::RankBytes& rank = forecast.ranks[static_cast<std::size_t>(position)];
    fmt::format_to(out, "{:>8} {:>10} {:>12} {:>12} {:>14} {:>12} {:>12}\n", position, sections_of(forecast, position),
                   format_count(rank.parameters), format_bytes(rank.states), format_bytes(rank.results),
                   format_bytes(rank.sent_crossing), format_bytes(rank.sent_states));
  }
  text +=
      "bytes of a rank of each position; results: of all operators, for the micro-batches that it holds at once\n\n";
  for (int section = 0; section < forecast.sections.count; ++section)
    fmt::format_to(out, "section {} at position {}: {}{}\n", section,
                   forecast.plan.rank_of_section[static_cast<std::size_t>(section)],
                   format_count(std::ranges::count(forecast.sections.of_operator, section), "operator"),
                   forecast.sections.has_lookup && section == 0 ? ", lookups of tied parameters" : "");
  for (const Crossing& crossing : forecast.sections.crossings)
    fmt::format_to(out, "from section {} to {}: result of {}, {} a micro-batch\n", crossing.from,
                   fmt::join(crossing.to, ", "),
                   forecast.graph.operators[static_cast<std::size_t>(crossing.made_by)].name,
                   format_bytes(forecast.graph.values[static_cast<std::size_t>(crossing.value)].bytes));
  for (std::size_t position = 0; position < forecast.plan.passes.size(); ++position)
    fmt::format_to(out, "position {}: {}\n", position,
                   text_of(forecast.plan.passes[position], forecast.plan.num_sections() > forecast.plan.ranks));
  return text;
}

std::string forecast_json(const PipelineForecast& forecast) {
  nlohmann::ordered_json json{{"model", forecast.model},
                              {"pipeline", forecast.plan.ranks},
                              {"lines", forecast.lines},
                              {"stage", forecast.stage},
                              {"schedule", name_of(forecast.options.schedule)},
                              {"micro_batches", forecast.plan.micros},
                              {"bubble", bubble_share(forecast)}};
  for (int position = 0; position < forecast.plan.ranks; ++position) {
    const PipelineForecast::RankBytes& rank = forecast.ranks[static_cast<std::size_t>(position)];
    json["positions"].push_back({{"sections", forecast.plan.sections_of(position)},
                                 {"parameters", rank.parameters},
                                 {"state_bytes", rank.states},
                                 {"most_result_bytes", rank.results},
                                 {"micro_batches_held", held_micros(forecast, position)},
                                 {"sent_crossing_bytes", rank.sent_crossing},
                                 {"sent_state_bytes", rank.sent_states},
                                 {"passes", text_of(forecast.plan.passes[static_cast<std::size_t>(position)],
                                                    forecast.plan.num_sections() > forecast.plan.ranks)}});
  }
  json["crossings"] = nlohmann::ordered_json::array();
  for (const Crossing& crossing : forecast.sections.crossings)
    json["crossings"].push_back(
        {{"from", crossing.from},
         {"to", crossing.to},
         {"operator", forecast.graph.operators[static_cast<std::size_t>(crossing.made_by)].name},
         {"bytes", forecast.graph.values[static_cast<std::size_t>(crossing.value)].bytes}});
  return json.dump(1) + "\n";
}

}  // namespace zero::cli
