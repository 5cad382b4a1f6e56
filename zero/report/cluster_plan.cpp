#include "zero/report/cluster_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/bytes.h"
#include "zero/base/seconds.h"
#include "zero/report/memory_fit.h"
#include "zero/report/wrapped.h"

namespace zero {
namespace {

constexpr double kAsFast = 1.03;

// A way as options say it.
struct Choice {
  int stage;
  int group;
  bool local;
  auto operator<=>(const Choice&) const = default;
};

// Groups of whole machines: one, two, four ..., and all of them.
std::vector<int> groups_of(const Cluster& cluster) {
  std::vector<int> groups;
  for (int hosts = 1; hosts < cluster.hosts; hosts *= 2)
    if (cluster.hosts % hosts == 0 && hosts * cluster.ranks > 1) groups.push_back(hosts * cluster.ranks);
  groups.push_back(cluster.world());
  return groups;
}

Choice planned_choice(const TrainingPlan& plan) {
  return {plan.options.stage, mesh_of(plan).shard, plan.options.local.has_value()};
}

// Every rank with the whole model, then stages 2 and 3 in groups, and what is planned.
std::set<Choice> choices_of(const TrainingPlan& plan, const Cluster& cluster) {
  std::set<Choice> choices{{0, 1, false}, planned_choice(plan)};
  for (const int group : groups_of(cluster))
    for (const int stage : {2, 3}) choices.insert({stage, group, false});
  const int copy = cluster.ranks;  // a machine trains apart from the others
  if (cluster.hosts > 1) choices.insert({copy == 1 ? 0 : plan.options.stage, copy, true});
  return choices;
}

TrainingPlan changed(TrainingPlan plan, const Choice& choice) {
  if (choice == planned_choice(plan)) return plan;
  EngineOptions& options = plan.options;
  plan.tiers.clear();
  options.delayed_update = options.delayed_update && choice.stage == options.stage;
  options.stage = choice.stage;
  options.group = choice.group;
  if (!choice.local) {
    options.local.reset();
  } else if (!options.local) {
    options.local = LocalSteps{};
  }
  return plan;
}

void add(Exchange& exchange, const Exchange& other, double times) {
  exchange.within += times * other.within;
  exchange.leaving += times * other.leaving;
  exchange.delay += times * other.delay;
}

ClusterWay way_of(const TrainingPlan& plan, const Cluster& cluster, double computation) {
  ClusterWay way{.stage = plan.options.stage, .mesh = mesh_of(plan), .local = plan.options.local.has_value()};
  const Placement placement = placement_of(plan);
  way.exchange = exchange_of_step(plan.units, way.mesh, placement, cluster);
  const Exchange outer = way.local ? exchange_of_outer_step(plan.units, way.mesh, placement, cluster) : Exchange{};
  const double of_step = seconds_of(way.exchange, cluster);
  way.exchange_seconds = of_step;
  if (way.local) {
    const LocalSteps& local = *plan.options.local;
    add(way.exchange, outer, 1.0 / local.steps);
    // What of a fragment's exchange the steps on its way do not cover.
    const double covered = local.overlap * (computation / cluster.slowest() + of_step);
    way.exchange_seconds +=
        std::max(0.0, seconds_of(outer, cluster) / local.fragments - covered) * local.fragments / local.steps;
  }
  way.held = fit_of(plan).rank.total();
  way.fits = cluster.memory == 0 || way.held <= cluster.memory;
  way.seconds = computation / cluster.slowest() + way.exchange_seconds;
  return way;
}

int best_of(const std::vector<ClusterWay>& ways) {
  const auto counts = [](const ClusterWay& way) { return way.fits && !way.local; };
  double fastest = std::numeric_limits<double>::infinity();
  for (const ClusterWay& way : ways)
    if (counts(way)) fastest = std::min(fastest, way.seconds);
  int best = -1;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (!counts(ways[i]) || ways[i].seconds > kAsFast * fastest) continue;
    if (best < 0 || ways[i].held < ways[static_cast<std::size_t>(best)].held) best = static_cast<int>(i);
  }
  return best;
}

std::string named(const ClusterWay& way, const Cluster& cluster) {
  const bool alone = way.mesh.shard == 1;
  return fmt::format("stage {}, {}{}", way.stage,
                     way.mesh.shard == cluster.world() ? "all ranks"
                     : alone                           ? "each rank"
                                                       : fmt::format("groups of {}", way.mesh.shard),
                     way.local ? ", local steps" : "");
}

std::string flags_of(const ClusterWay& way, const Cluster& cluster) {
  return fmt::format("--zero.stage {} --zero.group {}{}", way.stage,
                     way.mesh.shard == cluster.world() ? 0 : way.mesh.shard, way.local ? " --sync.mode local" : "");
}

// As a file says it: powers of 1000.
std::string rate(double bytes) {
  for (const auto& [unit, size] : {std::pair{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}})
    if (bytes >= size) return fmt::format("{:.3g} {}/s", bytes / size, unit);
  return fmt::format("{:.3g} B/s", bytes);
}

std::string heading(const Cluster& cluster) {
  std::string text =
      fmt::format("cluster: {} of {}", format_count(cluster.hosts, "machine"), format_count(cluster.ranks, "rank"));
  if (cluster.hosts > 1) text += fmt::format(", {} leave a machine", rate(cluster.network));
  if (cluster.within > 0) text += fmt::format(", a rank sends {} within it", rate(cluster.within));
  if (cluster.memory > 0) text += fmt::format(", a rank has {}", format_bytes(cluster.memory));
  return wrapped(text, 2);
}

std::string best_rows(const ClusterPlan& plan) {
  if (plan.best < 0)
    return wrapped("  none of this fits: more machines, or states on host or disk (zero.host_memory, zero.disk)", 4);
  const ClusterWay& best = plan.ways[static_cast<std::size_t>(plan.best)];
  std::string rows = wrapped(fmt::format("  best: {}. Of its step {:.0f} % is exchange, as if none of it were hidden",
                                         flags_of(best, plan.cluster), 100 * best.exchange_seconds / best.seconds),
                             4);
  for (const ClusterWay& way : plan.ways) {
    if (!way.local || !way.fits || way.seconds > 0.7 * best.seconds) continue;
    rows += wrapped(fmt::format("  {} takes {:.2f} of that time: copies train apart for {} steps, which costs accuracy "
                                "(docs/distributed.md)",
                                flags_of(way, plan.cluster), way.seconds / best.seconds, plan.local_steps),
                    4);
  }
  if (plan.cluster.slowest() < plan.cluster.mean())
    rows += wrapped(
        fmt::format("  ranks wait for the slowest: with train.share = \"auto\" a step computes for {} instead of {}",
                    format_seconds(plan.computation / plan.cluster.mean()),
                    format_seconds(plan.computation / plan.cluster.slowest())),
        4);
  return rows;
}

}  // namespace

ClusterPlan plan_on(const TrainingPlan& plan, const Cluster& cluster, double computation) {
  ClusterPlan found{.cluster = cluster, .computation = computation};
  found.local_steps = plan.options.local.value_or(LocalSteps{}).steps;
  const Choice planned = planned_choice(plan);
  for (const Choice& choice : choices_of(plan, cluster)) {
    if (choice == planned) found.planned = static_cast<int>(found.ways.size());
    found.ways.push_back(way_of(changed(plan, choice), cluster, computation));
  }
  found.best = best_of(found.ways);
  return found;
}

std::string cluster_table(const ClusterPlan& plan) {
  std::string text = heading(plan.cluster);
  text += fmt::format("  {:<36} {:>9} {:>9}\n", "", "a rank", "leaves a");
  text += fmt::format("  {:<36} {:>9} {:>9} {:>9} {:>9}\n", "(>: as planned; *: best)", "holds", "machine", "exchange",
                      "step");
  for (std::size_t i = 0; i < plan.ways.size(); ++i) {
    const ClusterWay& way = plan.ways[i];
    const int number = static_cast<int>(i);
    text += fmt::format("{}{}{:<36} {:>9} {:>9} {:>9} {:>9}\n", number == plan.planned ? '>' : ' ',
                        number == plan.best ? '*' : ' ', named(way, plan.cluster), format_bytes(way.held),
                        format_bytes(std::llround(way.exchange.leaving)), format_seconds(way.exchange_seconds),
                        way.fits ? format_seconds(way.seconds) : "too large");
  }
  return text + best_rows(plan);
}

nlohmann::ordered_json cluster_json(const ClusterPlan& plan) {
  nlohmann::ordered_json json{
      {"hosts", plan.cluster.hosts}, {"ranks", plan.cluster.ranks}, {"computation_seconds", plan.computation},
      {"planned", plan.planned},     {"best", plan.best},           {"ways", nlohmann::ordered_json::array()}};
  for (const ClusterWay& way : plan.ways)
    json["ways"].push_back({{"stage", way.stage},
                            {"group", way.mesh.shard},
                            {"local", way.local},
                            {"held_bytes", way.held},
                            {"fits", way.fits},
                            {"within_bytes", way.exchange.within},
                            {"leaving_bytes", way.exchange.leaving},
                            {"delay_seconds", way.exchange.delay},
                            {"exchange_seconds", way.exchange_seconds},
                            {"seconds", way.seconds}});
  return json;
}

}  // namespace zero
