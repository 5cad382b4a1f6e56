#include "zero/plan/pipeline/plan_passes.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/base/text/bytes.h"
#include "zero/plan/pipeline/activation_bytes.h"

namespace zero {
namespace {

constexpr double kEqualTime = 1.01;

bool is_measured(const ForwardGraph& graph) {
  return std::ranges::any_of(graph.operators, [](const GraphOperator& op) { return op.seconds.total() > 0; });
}

PipelineLinks links_between(const CrossingBytes& bytes, const LinkSeconds& link) {
  const auto seconds = [&](const std::vector<std::int64_t>& of_sections) {
    std::vector<double> result;
    for (const std::int64_t each : of_sections) result.push_back(static_cast<double>(each) * link.per_byte);
    return result;
  };
  return {seconds(bytes.forward), seconds(bytes.backward), link.latency};
}

// `graph`: its work is what the cut balances.
PlannedPasses plan_order(const ForwardGraph& graph, PassOrder order, int depth, const PipelineOptions& options,
                         int micros, const LinkSeconds& link) {
  int sections = asked_sections(options);
  if (sections == 0) sections = default_sections(order, options.pipeline);
  PlannedPasses planned{
      .order = order, .sections = {}, .plan = build_pipeline(order, options.pipeline, sections, micros, depth)};
  planned.sections =
      options.first_units.empty() ? cut_sections(graph, sections) : cut_at_units(graph, options.first_units);
  if (planned.sections.has_lookup) {
    const auto home = static_cast<std::size_t>(planned.sections.home_of_lookup - 1);
    planned.plan = with_lookup(planned.plan, planned.plan.rank_of_section[home]);
  }
  const CrossingBytes bytes = crossing_bytes(graph, planned.sections, planned.plan.rank_of_section);
  planned.is_measured = is_measured(graph);
  PassCosts costs = costs_of_sections(graph, planned.sections, splits_backward(order));
  const std::vector<HeldActivations> held =
      activation_bytes(graph, planned.sections, planned.plan.rank_of_section, splits_backward(order));
  for (std::size_t section = 0; section < costs.size(); ++section) costs[section].held = held[section];
  const PipelineLinks links = links_between(bytes, link);
  for (std::size_t section = 0; section < costs.size(); ++section)
    planned.fill += costs[section].forward + (bytes.forward[section] > 0 ? links.forward[section] + link.latency : 0);
  planned.time = simulate(planned.plan, costs, links);
  return planned;
}

std::vector<bool> repeated_operators(const ForwardGraph& graph) {
  std::vector<bool> repeated(graph.operators.size(), false);
  for (const auto& [first, end] : graph.kept_together)
    std::fill(repeated.begin() + first, repeated.begin() + end, true);
  return repeated;
}

std::string first_line(const ConfigError& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

std::int64_t most_activation_bytes(const PipelineTime& time) {
  return std::ranges::max_element(time.ranks, {}, &RankTime::activation_bytes)->activation_bytes;
}

[[noreturn]] void refuse_all(const std::vector<OrderTrial>& trials, const PipelineOptions& options) {
  const auto smallest = std::ranges::min_element(
      trials, {}, [](const OrderTrial& trial) { return std::pair(trial.time.ranks.empty(), trial.activation_bytes); });
  if (!smallest->time.ranks.empty())
    throw ConfigError("parallel.activation_memory", format_bytes(options.activation_memory),
                      fmt::format("a rank holds {} B of activations ({}) with parallel.schedule = {}, and more with "
                                  "others",
                                  smallest->activation_bytes, format_bytes(smallest->activation_bytes),
                                  name_of(smallest->order, smallest->depth)),
                      fmt::format("use {}B, or a smaller train.batch", smallest->activation_bytes));
  std::string reasons;
  for (const OrderTrial& trial : trials)
    reasons += fmt::format("\n  {}: {}", name_of(trial.order, trial.depth), trial.skipped);
  throw ConfigError("parallel.schedule", "auto", "no order of passes fits the model:" + reasons,
                    "use fewer ranks in a line (parallel.pipeline)");
}

// The orders that were simulated, each with its passes, unless it was skipped.
class Trials {
 public:
  Trials(const ForwardGraph& graph, const PipelineOptions& options, int micros, const LinkSeconds& link)
      : graph_(graph), options_(options), micros_(micros), link_(link) {}

  // Returns the seconds of a step; 0: the order was skipped.
  double run(PassOrder order, int depth) {
    OrderTrial trial{.order = order, .depth = depth, .sections = asked_sections(options_), .skipped = {}, .time = {}};
    if (trial.sections == 0) trial.sections = default_sections(order, options_.pipeline);
    planned_.emplace_back();
    try {
      PlannedPasses passes = plan_order(graph_, order, depth, options_, micros_, link_);
      trial.time = passes.time;
      trial.activation_bytes = most_activation_bytes(passes.time);
      if (options_.activation_memory > 0 && trial.activation_bytes > options_.activation_memory) {
        trial.skipped = fmt::format("{} of activations, parallel.activation_memory = {}",
                                    format_bytes(trial.activation_bytes), format_bytes(options_.activation_memory));
      } else {
        planned_.back() = std::move(passes);
      }
    } catch (const ConfigError& error) {
      trial.skipped = first_line(error);
    }
    trials_.push_back(std::move(trial));
    return planned_.back() ? planned_.back()->time.seconds : 0;
  }

  // A greater depth hides messages, and holds more activations. A depth that helps little is not listed.
  void run_deeper(double shallow) {
    for (int depth = 1; shallow > 0 && depth < micros_; depth *= 2) {
      const double seconds = run(PassOrder::kOneForwardOneBackward, depth);
      if (seconds > 0 && seconds * kEqualTime < shallow) {
        shallow = seconds;
        continue;
      }
      if (seconds > 0) {
        trials_.pop_back();
        planned_.pop_back();
      }
      return;
    }
  }

  PlannedPasses take_best() {
    double shortest = 0;
    for (const std::optional<PlannedPasses>& passes : planned_)
      if (passes) shortest = shortest == 0 ? passes->time.seconds : std::min(shortest, passes->time.seconds);
    std::optional<std::size_t> best;
    for (std::size_t at = 0; at < trials_.size(); ++at) {
      if (!planned_[at] || trials_[at].time.seconds > shortest * kEqualTime) continue;
      if (!best || trials_[at].activation_bytes < trials_[*best].activation_bytes) best = at;
    }
    if (!best) refuse_all(trials_, options_);
    PlannedPasses chosen = std::move(*planned_[*best]);
    chosen.trials = std::move(trials_);
    return chosen;
  }

 private:
  const ForwardGraph& graph_;
  const PipelineOptions& options_;
  const int micros_;
  const LinkSeconds& link_;
  std::vector<OrderTrial> trials_;
  std::vector<std::optional<PlannedPasses>> planned_;
};

PlannedPasses choose_order(const ForwardGraph& graph, const PipelineOptions& options, int micros,
                           const LinkSeconds& link) {
  Trials trials(graph, options, micros, link);
  for (const Choice<PassOrder>& order : kPassOrders) {
    if (order.value == PassOrder::kAuto) continue;
    const double seconds = trials.run(order.value, /*depth=*/0);
    if (order.value == PassOrder::kOneForwardOneBackward) trials.run_deeper(seconds);
  }
  return trials.take_best();
}

}  // namespace

CrossingBytes crossing_bytes(const ForwardGraph& graph, const Sections& sections,
                             const std::vector<int>& rank_of_section) {
  const auto count = static_cast<std::size_t>(sections.count);
  CrossingBytes bytes{std::vector<std::int64_t>(count, 0), std::vector<std::int64_t>(count, 0)};
  const auto rank_of = [&](int section) { return rank_of_section[static_cast<std::size_t>(section)]; };
  for (const Crossing& crossing : sections.crossings) {
    if (crossing.from == kEverywhere) continue;
    const GraphValue& value = graph.values[static_cast<std::size_t>(crossing.value)];
    int before = crossing.from;
    std::vector<int> received{rank_of(crossing.from)};
    for (const int to : crossing.to) {
      if (to == kEverywhere) continue;
      const int rank = rank_of(to);
      if (std::ranges::find(received, rank) == received.end()) {
        bytes.forward[static_cast<std::size_t>(crossing.from)] += value.bytes;
        received.push_back(rank);
      }
      if (value.differentiable && rank_of(before) != rank) bytes.backward[static_cast<std::size_t>(to)] += value.bytes;
      before = to;
    }
  }
  return bytes;
}

PassCosts costs_of_sections(const ForwardGraph& graph, const Sections& sections, bool split) {
  PassCosts costs(static_cast<std::size_t>(sections.count));
  const bool measured = is_measured(graph);
  double whole = 0;
  for (const double work : sections.work) whole += work;
  const std::vector<bool> repeated = repeated_operators(graph), postponed = postponed_products(graph, sections);
  for (std::size_t op = 0; op < graph.operators.size(); ++op) {
    if (sections.of_operator[op] == kEverywhere) continue;
    SectionCosts& section = costs[static_cast<std::size_t>(sections.of_operator[op])];
    const double share = whole > 0 ? graph.operators[op].work / whole : 0;
    const OperatorSeconds seconds = measured ? graph.operators[op].seconds : OperatorSeconds{share, share, share};
    section.forward += seconds.forward;
    section.inputs += seconds.inputs + (repeated[op] ? seconds.forward : 0);
    (split && !postponed[op] ? section.inputs : section.weights) += seconds.weights;
  }
  return costs;
}

int asked_sections(const PipelineOptions& options) {
  return options.first_units.empty() ? options.sections : static_cast<int>(options.first_units.size()) + 1;
}

void require_pipeline_numbers(const PipelineOptions& options) {
  require_number("parallel.sections", options.sections, kAtLeastZero, "use 0 for as many as parallel.schedule needs");
  require_number("parallel.depth", options.depth, kAtLeastZero, "use 0, or for example 1");
  require_number("parallel.activation_memory", static_cast<double>(options.activation_memory), kAtLeastZero,
                 "use bytes, or 0 for no limit");
}

void require_pipeline(const PipelineOptions& options, int micros) {
  require_pipeline_numbers(options);
  const int asked = asked_sections(options);
  const bool chooses = options.schedule == PassOrder::kAuto;
  const int sections = asked > 0 || chooses ? asked : default_sections(options.schedule, options.pipeline);
  const auto refuse = [&](const std::string& reason, int needed) {
    throw ConfigError(
        "parallel.cut", fmt::format("{}", options.first_units),
        fmt::format("it cuts the model into {} sections, and {}", asked, reason),
        fmt::format("name {}: the first unit of each section after the first", format_count(needed - 1, "unit")));
  };
  if (!options.first_units.empty() && options.sections > 0 && options.sections != asked)
    refuse(fmt::format("parallel.sections = {}", options.sections), options.sections);
  try {
    require_order(options.schedule, options.pipeline, sections, micros, options.depth);
  } catch (const ConfigError& error) {
    if (options.first_units.empty() || chooses || error.key() != "parallel.sections") throw;
    refuse(fmt::format("parallel.schedule = {} cannot use this number on {} ranks", name_of(options.schedule),
                       options.pipeline),
           default_sections(options.schedule, options.pipeline));
  }
}

PlannedPasses plan_passes(const ForwardGraph& graph, const PipelineOptions& options, int micros,
                          const LinkSeconds& link) {
  require_pipeline(options, micros);
  ForwardGraph weighed = graph;
  if (options.cut == CutBy::kSeconds && is_measured(graph))
    for (GraphOperator& op : weighed.operators) op.work = op.seconds.total();
  return options.schedule == PassOrder::kAuto
             ? choose_order(weighed, options, micros, link)
             : plan_order(weighed, options.schedule, options.depth, options, micros, link);
}

std::string name_of(PassOrder order, int depth) {
  return depth == 0 ? std::string(name_of(order)) : fmt::format("{} depth {}", name_of(order), depth);
}

std::string order_table(const PlannedPasses& planned) {
  if (planned.trials.empty()) return "";
  std::string text = fmt::format("{:<12} {:>8} {:>10} {:>8} {:>12}  {}\n", "order", "sections", "step", "bubble",
                                 "activations", "in flight, by rank");
  const auto out = std::back_inserter(text);
  for (const OrderTrial& trial : planned.trials) {
    if (!trial.skipped.empty()) {
      fmt::format_to(out, "{:<12} {:>8} skipped: {}\n", name_of(trial.order, trial.depth), trial.sections,
                     trial.skipped);
      continue;
    }
    std::vector<int> in_flight;
    for (const RankTime& rank : trial.time.ranks) in_flight.push_back(rank.in_flight);
    const double share = trial.time.seconds > 0 ? 100 * trial.time.bubble / trial.time.seconds : 0;
    fmt::format_to(out, "{:<12} {:>8} {:>10} {:>6.1f} % {:>12}  {}{}\n", name_of(trial.order, trial.depth),
                   trial.sections,
                   planned.is_measured ? format_seconds(trial.time.seconds) : fmt::format("{:.3g}", trial.time.seconds),
                   share, format_bytes(trial.activation_bytes), fmt::join(in_flight, " "),
                   trial.order == planned.order && trial.depth == planned.plan.depth ? "  chosen" : "");
  }
  return text;
}

std::vector<std::string> notes_on(const PlannedPasses& planned, std::chrono::milliseconds timeout) {
  std::vector<std::string> notes;
  const int micros = planned.plan.micros, positions = planned.plan.ranks;
  if (micros < positions && planned.time.seconds > 0)
    notes.push_back(
        fmt::format("with fewer micro-batches ({}) than positions ({}) the bubble is {:.1f} % of a step: begin with "
                    "train.accumulate = {}",
                    micros, positions, 100 * planned.time.bubble / planned.time.seconds, 8 * positions));
  constexpr double kFills = 4;
  const double most = std::chrono::duration<double>(timeout).count();
  if (planned.is_measured && most < kFills * planned.fill)
    notes.push_back(fmt::format(
        "comm.timeout = {} is less than four times the {} of a forward pass through all sections. A rank that waits "
        "may end the run: use at least {}",
        format_seconds(most), format_seconds(planned.fill), format_seconds(kFills * planned.fill)));
  return notes;
}

}  // namespace zero
