#include "app/report/plan/cluster_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/comm/rendezvous/rank_set.h"
#include "zero/engine/place/gather_budget.h"
#include "zero/plan/schedule/schedule.h"
#include "zero/plan/served/served_clock.h"

#include "app/report/plan/memory_fit.h"
#include "app/report/plan/served_plan.h"
#include "app/report/screen/wrapped.h"

namespace zero {
namespace {

constexpr double kAsFast = 1.03;
constexpr double kWorthwhile = 0.7;  // of the best way's time, for a way that costs accuracy

// A way, as options express it.
struct PlanChoice {
  int stage;
  int group;
  bool local;
  SyncMode mode = SyncMode::kSync;
  int servers = 0;
  int staleness = 0;
  int quorum = 0;
  int secondary = 0;
  auto operator<=>(const PlanChoice&) const = default;
};

constexpr double kTopkShare = 0.01;  // share of elements in the ways that are tried

bool is_coded(const ClusterWay& way) {
  return way.wire != WireCodecs{};
}

// Returns groups of whole machines: one, two, four ..., and all of them.
std::vector<int> groups_of(const Cluster& cluster) {
  std::vector<int> groups;
  for (int hosts = 1; hosts < cluster.hosts; hosts *= 2)
    if (cluster.hosts % hosts == 0 && hosts * cluster.ranks > 1) groups.push_back(hosts * cluster.ranks);
  groups.push_back(cluster.world());
  return groups;
}

PlanChoice planned_choice(const TrainingPlan& plan) {
  const SyncPlan& sync = plan.options.sync;
  if (sync.has_servers()) return {3, sync.servers, false, sync.mode, sync.servers, sync.staleness, sync.quorum};
  PlanChoice choice{plan.options.stage, mesh_of(plan).shard, plan.options.local.has_value()};
  choice.secondary = plan.options.secondary_group;
  return choice;
}

// Adds stage 3 over several machines, each of which keeps weights of its own within a step.
void add_secondary(std::set<PlanChoice>& choices, const TrainingPlan& plan, const Cluster& cluster) {
  if (cluster.ranks == 1 || plan.options.shards == Cut::kWeighted) return;
  for (const int group : groups_of(cluster)) {
    PlanChoice choice{3, group, false};
    choice.secondary = cluster.ranks;
    if (group > cluster.ranks) choices.insert(choice);
  }
}

constexpr int kOldGradients = 4;      // staleness of the ways that are tried
constexpr int kRanksAServer = 8;      // of the ways that are tried
constexpr double kLeftOut = 1.0 / 8;  // share of the workers that a tried quorum leaves out

// Adds ways with servers, if the plan can be trained with them. With more ranks than a RankSet holds they cannot run,
// and the table says so. Only equal ranges are then tried, because the parts of thousands of servers take long to
// compute for other cuts.
void add_served(std::set<PlanChoice>& choices, const TrainingPlan& plan, const Cluster& cluster) {
  const int world = cluster.world();
  const AttachOptions& options = plan.options;
  if (world < 3 || options.delayed_update) return;
  if (world > kMaxBoardRanks && options.shards != Cut::kRange) return;
  const int servers = std::max(1, world / kRanksAServer);
  const int workers = world - servers;
  choices.insert({3, servers, false, SyncMode::kStale, servers, 1});
  choices.insert({3, servers, false, SyncMode::kAsync, servers, kOldGradients});
  const int late = std::max(1, static_cast<int>(workers * kLeftOut));
  if (workers > 1) choices.insert({3, servers, false, SyncMode::kSync, servers, 0, workers - late});
}

// Returns these ways: every rank with the whole model, stages 2 and 3 in groups, servers, and the planned way.
std::set<PlanChoice> choices_of(const TrainingPlan& plan, const Cluster& cluster) {
  std::set<PlanChoice> choices{{0, 1, false}, planned_choice(plan)};
  for (const int group : groups_of(cluster))
    for (const int stage : {2, 3}) choices.insert({stage, group, false});
  const int copy = cluster.ranks;  // each machine trains apart
  if (cluster.hosts > 1) choices.insert({copy == 1 ? 0 : plan.options.stage, copy, true});
  add_secondary(choices, plan, cluster);
  add_served(choices, plan, cluster);
  return choices;
}

// Returns the plan with the choice applied; nothing if such a plan is impossible.
std::optional<TrainingPlan> changed(TrainingPlan plan, const PlanChoice& choice, const Cluster& cluster) {
  if (choice == planned_choice(plan)) return plan;
  AttachOptions& options = plan.options;
  plan.tiers.clear();
  options.delayed_update = options.delayed_update && choice.stage == options.stage;
  options.stage = choice.stage;
  options.group = choice.servers > 0 ? 0 : choice.group;
  options.secondary_group = choice.secondary;
  options.sync = {
      .mode = choice.mode, .servers = choice.servers, .staleness = choice.staleness, .quorum = choice.quorum};
  plan.workers = choice.servers > 0 ? options.sync.num_workers(cluster.world()) : 0;
  plan.world = choice.servers > 0 ? choice.servers : cluster.world();
  if (!choice.local) {
    options.local.reset();
  } else if (!options.local) {
    options.local = LocalSteps{};
  }
  if (options.shards == Cut::kRange) return plan;
  try {
    plan.units = units_of(plan.specs, plan.world, options);
  } catch (const ConfigError&) {
    return std::nullopt;
  }
  return plan;
}

// Applies the codec between copies of the model, or else within the copy.
WireCodecs wire_with(WireCodec codec, const ClusterWay& way) {
  if (way.mesh.copies > 1) return {.outer = codec};
  return {.gather = way.stage == 3 ? codec : WireCodec::kNone, .reduce = codec};
}

// Returns the best way, and ways with local steps, with codecs.
std::vector<TrainingPlan> coded_plans(const TrainingPlan& plan, const ClusterPlan& found) {
  std::vector<TrainingPlan> coded;
  if (plan.options.wire != WireCodecs{} || found.cluster.hosts == 1) return coded;
  const auto add = [&](const ClusterWay& way, const WireCodecs& wire) {
    PlanChoice choice{way.stage, way.mesh.shard, way.local};
    choice.secondary = way.secondary;
    std::optional<TrainingPlan> variant = changed(plan, choice, found.cluster);
    if (!variant) return;
    variant->options.wire = wire;
    try {
      require_wire(variant->options, variant->world);
      variant->units = units_of(variant->specs, variant->world, variant->options);
    } catch (const ConfigError&) {  // blocks that cannot be coded
      return;
    }
    coded.push_back(std::move(*variant));
  };
  for (std::size_t i = 0; i < found.ways.size(); ++i) {
    const ClusterWay& way = found.ways[i];
    if (way.sync.has_servers() || (static_cast<int>(i) != found.best && !way.local)) continue;
    for (const WireCodec codec : {WireCodec::kInt8, WireCodec::kInt4}) add(way, wire_with(codec, way));
    if (way.local) add(way, {.outer_topk = kTopkShare});
  }
  return coded;
}

void add(Exchange& exchange, const Exchange& other, double times) {
  exchange.within += times * other.within;
  exchange.leaving += times * other.leaving;
  exchange.delay += times * other.delay;
}

// Returns the seconds of a fragment's exchange that the steps of its flight do not cover. Differences are sent in the
// first half of these steps, and sums in the second. With outer_topk there are no sums, and the largest elements are
// sent in all steps (zero/engine/outer/outer_exchange.h).
double uncovered(double seconds, const TrainingPlan& plan, double step) {
  const int overlap = plan.options.local->overlap;
  if (plan.options.wire.outer_topk > 0) return std::max(0.0, seconds - overlap * step);
  const int out = (overlap + 1) / 2, back = overlap / 2;
  return std::max(0.0, seconds / 2 - out * step) + std::max(0.0, seconds / 2 - back * step);
}

// Copies wait for each other once in a round. The sums of their ranks' times until then vary less than the times do.
double outer_waiting(const LocalSteps& local, const Mesh& mesh, const Cluster& cluster, double computation) {
  return (seconds_of_all(computation, mesh.copies, cluster) - seconds_of_all(computation, 1, cluster)) /
         std::sqrt(static_cast<double>(local.steps));
}

ClusterWay served_way(const TrainingPlan& plan, const Cluster& cluster, double computation) {
  const SyncPlan& sync = plan.options.sync;
  ClusterWay way{.stage = plan.options.stage, .mesh = {.shard = sync.servers}, .sync = sync};
  const ServedPlan served = served_plan(plan);
  const ClockBytes bytes{.pushed = static_cast<double>(served.pushed),
                         .pulled = static_cast<double>(served.pulled),
                         .messages = static_cast<int>(plan.units.size()),
                         .largest_part = served.largest_part};
  const ServedTraffic traffic = traffic_of(sync, bytes, cluster);
  way.exchange = traffic.total();
  way.clock_seconds = clock_seconds(sync, cluster, computation, traffic);
  const double used = num_used(sync, cluster.world());
  way.seconds = way.clock_seconds * cluster.world() / used;
  way.exchange_seconds = (way.clock_seconds - clock_seconds(sync, cluster, computation, {})) * cluster.world() / used;
  const std::int64_t activations = plan.machine ? plan.machine->activation_bytes : 0;
  way.held = std::max(served.server.total() + served.pushes + served.versions + served.compensation,
                      served.worker.total() + served.blocks + activations);
  way.fits = cluster.memory == 0 || way.held <= cluster.memory;
  way.can_run = cluster.world() <= kMaxBoardRanks;
  return way;
}

// Returns true if weights stay gathered from one use to the next (zero/plan/schedule/schedule.h): memory holds all of
// them.
bool stay_gathered(const TrainingPlan& plan, const Mesh& mesh, std::int64_t held, const Cluster& cluster) {
  const MemoryBudget& budget = plan.options.device_memory;
  if (budget.kind == MemoryBudget::Kind::kMin) return false;
  const std::int64_t memory = budget.kind == MemoryBudget::Kind::kBytes ? budget.bytes : cluster.memory;
  held -= secondary_bytes(plan.units, mesh.shard, placement_of(plan));  // which no rank keeps in this case
  for (const Unit& unit : plan.units) held += gathered_bytes(unit, mesh.shard);
  return memory == 0 || held <= memory;
}

// Returns the placement whose bytes a step sends. Weights that stay gathered are gathered once, as at stage 2.
Placement sent_as(const TrainingPlan& plan, const Mesh& mesh, std::int64_t held, const Cluster& cluster) {
  Placement placement = placement_of(plan);
  const bool trains_all = std::ranges::all_of(plan.units, &Unit::trainable);  // a frozen unit is always gathered
  if (placement.parameter_sharded && trains_all && stay_gathered(plan, mesh, held, cluster))
    placement.parameter_sharded = false;
  return placement;
}

ClusterWay way_of(const TrainingPlan& plan, const Cluster& cluster, double computation) {
  if (plan.options.sync.has_servers()) return served_way(plan, cluster, computation);
  ClusterWay way{.stage = plan.options.stage,
                 .mesh = mesh_of(plan),
                 .local = plan.options.local.has_value(),
                 .secondary = plan.options.secondary_group};
  way.held = fit_of(plan).rank.total();
  way.fits = cluster.memory == 0 || way.held <= cluster.memory;
  const Placement placement = sent_as(plan, way.mesh, way.held, cluster);
  way.exchange = exchange_of_step(plan.units, way.mesh, placement, cluster);
  const Exchange outer = way.local ? exchange_of_outer_step(plan.units, way.mesh, placement, cluster) : Exchange{};
  const double of_step = seconds_of(way.exchange, cluster);
  double computing = seconds_of_all(computation, way.local ? way.mesh.shard : way.mesh.world(), cluster);
  way.exchange_seconds = of_step;
  if (way.local) {
    const LocalSteps& local = *plan.options.local;
    add(way.exchange, outer, 1.0 / local.steps);
    const double of_fragment = seconds_of(outer, cluster) / local.fragments;
    way.exchange_seconds += uncovered(of_fragment, plan, computing + of_step) * local.fragments / local.steps;
    computing += outer_waiting(local, way.mesh, cluster, computation);
  }
  way.waiting_seconds = computing - computation / cluster.mean();
  way.seconds = computing + way.exchange_seconds;
  return way;
}

int best_of(const std::vector<ClusterWay>& ways) {
  const auto counts = [](const ClusterWay& way) {
    return way.fits && !way.local && !way.sync.has_servers() && !is_coded(way);
  };
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

std::string_view codec_of(const ClusterWay& way) {
  if (way.wire.outer_topk > 0) return "topk";
  return name_of(std::max({way.wire.gather, way.wire.reduce, way.wire.outer}));
}

std::string named(const ClusterWay& way, const Cluster& cluster) {
  const SyncPlan& sync = way.sync;
  if (sync.has_servers())
    return fmt::format("{}{}, {}", name_of(sync.mode),
                       sync.quorum > 0      ? fmt::format(", quorum {}", sync.quorum)
                       : sync.staleness > 0 ? fmt::format(", staleness {}", sync.staleness)
                                            : "",
                       format_count(sync.servers, "server"));
  const bool alone = way.mesh.shard == 1;
  const char* const local = is_coded(way) ? ", local" : ", local steps";
  return fmt::format("stage {}, {}{}", way.stage,
                     way.mesh.shard == cluster.world() ? "all ranks"
                     : alone                           ? "each rank"
                                                       : fmt::format("groups of {}", way.mesh.shard),
                     way.local           ? std::string(local)
                     : way.secondary > 0 ? fmt::format(", secondary {}", way.secondary)
                                         : "") +
         (is_coded(way) ? fmt::format(", {}", codec_of(way)) : "");
}

std::string flags_of(const ClusterWay& way, const Cluster& cluster) {
  const SyncPlan& sync = way.sync;
  if (sync.has_servers())
    return fmt::format("--sync.mode {} --sync.servers {}{}{}", name_of(sync.mode), sync.servers,
                       sync.staleness > 0 ? fmt::format(" --sync.staleness {}", sync.staleness) : "",
                       sync.quorum > 0 ? fmt::format(" --sync.quorum {}", sync.quorum) : "");
  std::string flags =
      fmt::format("--zero.stage {} --zero.group {}{}", way.stage,
                  way.mesh.shard == cluster.world() ? 0 : way.mesh.shard, way.local ? " --sync.mode local" : "");
  if (way.secondary > 0) flags += fmt::format(" --zero.secondary_group {}", way.secondary);
  const auto add = [&](const char* key, bool is_given) {
    if (is_given) flags += fmt::format(" --comm.{} {}", key, codec_of(way));
  };
  add("gather_wire", way.wire.gather != WireCodec::kNone);
  add("reduce_wire", way.wire.reduce != WireCodec::kNone);
  add("outer_wire", way.wire.outer != WireCodec::kNone || way.wire.outer_topk > 0);
  return flags;
}

// Describes what a way costs beside time, compared with one model and all gradients.
std::string cost_of(const ClusterWay& way, const ClusterPlan& plan) {
  const int workers = way.sync.num_workers(plan.cluster.world());
  const char* const coded = way.wire.outer_topk > 0 ? ", and 99 of 100 elements of their differences cross later"
                            : is_coded(way)         ? ", and their differences are rounded"
                                                    : "";
  if (way.local)
    return fmt::format("copies train apart for {} steps{}, which costs accuracy (docs/distributed/local_steps.md)",
                       plan.local_steps, coded);
  if (is_coded(way))
    return fmt::format("{} are rounded, which costs accuracy (docs/distributed/codecs.md)",
                       way.wire.gather == WireCodec::kNone ? "gradients" : "gradients and gathered parameters");
  if (way.sync.quorum > 0)
    return fmt::format("{} of {} gradients of a clock are dropped, those of the slowest", workers - way.sync.quorum,
                       workers);
  if (way.sync.mode == SyncMode::kStale)
    return fmt::format("every gradient is {} old, which costs accuracy", format_count(way.sync.staleness, "clock"));
  return "gradients are of older weights, which costs accuracy";
}

// Formats a rate as in a cluster file: in powers of 1000.
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

bool all_can_run(const ClusterPlan& plan) {
  return std::ranges::all_of(plan.ways, &ClusterWay::can_run);
}

std::string best_rows(const ClusterPlan& plan) {
  if (plan.best < 0)
    return wrapped(
        "  none of these layouts fits: use more machines, or put states on host or disk (zero.host_memory, zero.disk)",
        4);
  const ClusterWay& best = plan.ways[static_cast<std::size_t>(plan.best)];
  std::string reasons = fmt::format("  best: {}. Exchange takes {:.0f} % of its step, if computation hides none of it",
                                    flags_of(best, plan.cluster), 100 * best.exchange_seconds / best.seconds);
  if (best.waiting_seconds > 0.005 * best.seconds)
    reasons += fmt::format(", and {:.0f} % waits for the slowest rank", 100 * best.waiting_seconds / best.seconds);
  std::string rows = wrapped(reasons, 4);
  bool has_servers = false, servers_fit = false, servers_gain = false;  // of the ways that can run
  // A codec must gain as much over the way without it, and a codec that rounds more over a codec that rounds less.
  double least = best.seconds, least_local = best.seconds;
  for (const ClusterWay& way : plan.ways) {
    if (!way.can_run) continue;
    const bool served = way.sync.has_servers();
    double& before = way.local ? least_local : least;
    const bool gains = way.fits && way.seconds <= kWorthwhile * (is_coded(way) ? before : best.seconds);
    has_servers = has_servers || served;
    servers_fit = servers_fit || (served && way.fits);
    servers_gain = servers_gain || (served && gains);
    if ((!way.local && !served && !is_coded(way)) || !gains) continue;
    if (!served) before = way.seconds;
    rows += wrapped(fmt::format("  {} takes {:.2f} of that time: {}", flags_of(way, plan.cluster),
                                way.seconds / best.seconds, cost_of(way, plan)),
                    4);
  }
  if (plan.cluster.world() > kMaxBoardRanks)
    rows += wrapped(fmt::format("  servers {}: a run with them has at most {} ranks",
                                all_can_run(plan) ? "were not tried" : "cannot run here (-)", kMaxBoardRanks),
                    4);
  const bool planned = plan.planned >= 0 && plan.ways[static_cast<std::size_t>(plan.planned)].sync.has_servers();
  if (plan.cluster.hosts > 1 && (servers_gain || planned))
    rows += wrapped(
        "  servers over several machines exchange messages over gloo or MPI; the processor time of messages is not "
        "counted",
        4);
  else if (has_servers && !servers_fit)
    rows +=
        wrapped("  servers have no room here: each holds its part of all states, and gradients that workers push", 4);
  else if (has_servers && !servers_gain)
    rows += wrapped(
        fmt::format("  servers save less than {:.0f} % of it: they compute no gradients, and {}",
                    100 * (1 - kWorthwhile),
                    plan.cluster.jitter > 0 ? "all of it is not waiting"
                                            : "ranks that do not vary (cluster.jitter) give them nothing to hide"),
        4);
  if (plan.cluster.slowest() < plan.cluster.mean())
    rows += wrapped(
        fmt::format("  ranks wait for the slowest: with train.share = \"auto\" a step computes for {} instead of {}",
                    format_seconds(plan.computation / plan.cluster.mean()),
                    format_seconds(plan.computation / plan.cluster.slowest())),
        4);
  return rows;
}

}  // namespace

double exchange_seconds(const TrainingPlan& plan, const Cluster& cluster) {
  return way_of(plan, cluster, 0).exchange_seconds;
}

ClusterPlan plan_on(const TrainingPlan& plan, const Cluster& cluster, double computation) {
  ClusterPlan found{.cluster = cluster, .computation = computation};
  found.local_steps = plan.options.local.value_or(LocalSteps{}).steps;
  const PlanChoice planned = planned_choice(plan);
  for (const PlanChoice& choice : choices_of(plan, cluster)) {
    const auto way = changed(plan, choice, cluster);
    if (!way) continue;
    ClusterWay tried = way_of(*way, cluster, computation);
    if (choice == planned) {
      found.planned = static_cast<int>(found.ways.size());
    } else if (tried.secondary > 0 && stay_gathered(*way, tried.mesh, tried.held, cluster)) {
      continue;  // no unit is gathered twice
    }
    found.ways.push_back(std::move(tried));
  }
  found.best = best_of(found.ways);
  for (const TrainingPlan& coded : coded_plans(plan, found)) {
    ClusterWay way = way_of(coded, cluster, computation);
    way.wire = coded.options.wire;
    found.ways.push_back(std::move(way));
  }
  return found;
}

std::string cluster_table(const ClusterPlan& plan) {
  std::string text = heading(plan.cluster);
  text += fmt::format("  {:<36} {:>9} {:>9}\n", "", "a rank", "leaves a");
  const char* const marks = all_can_run(plan) ? "(>: as planned; *: best)" : "(>: planned; *: best; -: cannot run)";
  text += fmt::format("  {:<36} {:>9} {:>9} {:>9} {:>9}\n", marks, "holds", "machine", "exchange", "step");
  for (std::size_t i = 0; i < plan.ways.size(); ++i) {
    const ClusterWay& way = plan.ways[i];
    const int number = static_cast<int>(i);
    text += fmt::format("{}{}{:<36} {:>9} {:>9} {:>9} {:>9}\n", number == plan.planned ? '>' : ' ',
                        number == plan.best ? '*' : (way.can_run ? ' ' : '-'), named(way, plan.cluster),
                        format_bytes(way.held), format_bytes(std::llround(way.exchange.leaving)),
                        format_seconds(way.exchange_seconds), way.fits ? format_seconds(way.seconds) : "too large");
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
                            {"can_run", way.can_run},
                            {"within_bytes", way.exchange.within},
                            {"leaving_bytes", way.exchange.leaving},
                            {"delay_seconds", way.exchange.delay},
                            {"exchange_seconds", way.exchange_seconds},
                            {"seconds", way.seconds}});
  for (std::size_t i = 0; i < plan.ways.size(); ++i) {
    const WireCodecs& wire = plan.ways[i].wire;
    if (plan.ways[i].secondary > 0) json["ways"][i]["secondary_group"] = plan.ways[i].secondary;
    if (is_coded(plan.ways[i]))
      json["ways"][i]["wire"] = {{"gather", name_of(wire.gather)},
                                 {"reduce", name_of(wire.reduce)},
                                 {"outer", wire.outer_topk > 0 ? "topk" : name_of(wire.outer)}};
    const SyncPlan& sync = plan.ways[i].sync;
    if (!sync.has_servers()) continue;
    json["ways"][i]["sync"] = {{"mode", name_of(sync.mode)},
                               {"servers", sync.servers},
                               {"staleness", sync.staleness},
                               {"quorum", sync.quorum},
                               {"clock_seconds", plan.ways[i].clock_seconds}};
  }
  return json;
}

}  // namespace zero
