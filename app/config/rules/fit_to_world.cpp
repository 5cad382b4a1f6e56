#include "app/config/rules/fit_to_world.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/comm/rendezvous/rank_set.h"
#include "zero/plan/units/mesh.h"
#include "zero/plan/units/secondary.h"
#include "zero/plan/units/weighted_cut.h"

#include "app/config/options/option.h"
#include "app/config/rules/leaf_rules.h"
#include "app/config/rules/pipeline_rules.h"
#include "app/config/rules/rules.h"

namespace zero {
namespace {

constexpr std::int64_t kMostSteps = 2147483647;  // the limit in the option table

std::string where(const LoadedConfig& loaded, std::string_view name) {
  const auto origin = loaded.origins.find(name);
  return located(origin == loaded.origins.end() ? "" : origin->second, name);
}

// Returns global / (factor * world). Throws ConfigError that names the nearest global batches that are multiples.
std::int64_t derive(const LoadedConfig& loaded, std::string_view factor_name, std::int64_t factor, std::int64_t world) {
  const std::int64_t global = loaded.config.train.global_batch;
  const std::int64_t unit = factor * world;
  if (global % unit == 0) return global / unit;
  const std::int64_t below = global / unit * unit;
  throw ConfigError(where(loaded, "train.global_batch"), std::to_string(global),
                    fmt::format("not a multiple of {} = {} ({}) x {} (world)", unit, factor, factor_name, world),
                    below > 0 ? fmt::format("use {} or {}, or another world", below, below + unit)
                              : fmt::format("use {} or more, or a smaller world", unit));
}

// Named shares must be one per rank, and sum to batch * world.
void check_shares(const LoadedConfig& loaded, std::int64_t world) {
  const TrainKeys& train = loaded.config.train;
  const auto& shares = train.share.given;
  const std::vector<std::int64_t> even(static_cast<std::size_t>(world), train.batch);
  const auto refuse = [&](const std::string& reason) {
    throw ConfigError(
        where(loaded, "train.share"), fmt::format("[{}]", fmt::join(shares, ", ")), reason,
        fmt::format("use \"auto\", or shares such as [{}]: they must sum to {} = {} (train.batch) x {} (ranks)",
                    fmt::join(even, ", "), train.batch * world, train.batch, world));
  };
  if (shares.empty()) return;
  if (shares.size() != even.size()) refuse(fmt::format("{} shares for {}", shares.size(), format_count(world, "rank")));
  const std::int64_t sum = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  if (sum != train.batch * world) refuse(fmt::format("they sum to {}", sum));
}

void check_share_most(const LoadedConfig& loaded, std::int64_t world) {
  const TrainKeys& train = loaded.config.train;
  if (train.share.most == 0 || train.share.most >= train.batch) return;
  throw ConfigError(
      where(loaded, "train.share_most"), std::to_string(train.share.most),
      fmt::format("{} ranks together take {} samples, a mean of {} a rank", world, train.batch * world, train.batch),
      fmt::format("use {} or more, or 0 for any number", train.batch));
}

// Named weights must be one for each rank of a copy, or one for each server.
void check_shard_weights(const LoadedConfig& loaded, std::int64_t world) {
  const AttachOptions& engine = loaded.config.engine;
  const std::vector<double>& weights = engine.shard_weights;
  if (engine.shards != Cut::kWeighted || weights.empty()) return;
  if (const int servers = engine.sync.servers; servers > 0)
    return require_weights(weights, servers, where(loaded, "zero.shard_weights"), "server");
  const int ranks = static_cast<int>(world), group = engine.group;
  const Mesh mesh = loaded.config.local.on ? mesh_of_local(ranks, group) : mesh_of(ranks, group);
  require_weights(weights, mesh.shard, where(loaded, "zero.shard_weights"));
}

void fit_batch(LoadedConfig& loaded, std::int64_t world) {
  auto& train = loaded.config.train;
  if (train.leaves > 0) return fit_leaves(loaded, world);
  const auto given = [&](std::string_view name) { return loaded.origins.contains(name); };
  if (train.global_batch == 0) {
    train.global_batch = train.batch * train.accumulate * world;
    return;
  }
  if (!given("train.batch")) {
    train.batch = derive(loaded, "train.accumulate", train.accumulate, world);
  } else if (!given("train.accumulate")) {
    train.accumulate = derive(loaded, "train.batch", train.batch, world);
  } else if (train.batch * train.accumulate * world != train.global_batch) {
    throw ConfigError(
        where(loaded, "train.global_batch"), std::to_string(train.global_batch),
        fmt::format("but train.batch {} x train.accumulate {} x world {} = {}", train.batch, train.accumulate, world,
                    train.batch * train.accumulate * world),
        "leave out one of train.batch, train.accumulate and train.global_batch: it follows from the other two");
  }
}

}  // namespace

std::int64_t most_samples(const StepOptions& train) {
  if (!train.share.given.empty()) return std::ranges::max(train.share.given);
  return train.share.kind == ShareKind::kMeasured ? std::max(train.batch, train.share.most) : train.batch;
}

std::int64_t accumulate_in(std::int64_t world, const Config& config) {
  const TrainKeys& train = config.train;
  const bool in_lines = config.parallel.pipeline > 1;
  const std::int64_t computing = world / config.parallel.pipeline;
  if (train.leaves > 0) return accumulate_of_leaves(computing, config);
  const std::int64_t per_batch = train.batch * computing;
  if (train.global_batch % per_batch == 0) return train.global_batch / per_batch;
  throw ConfigError("train.global_batch", std::to_string(train.global_batch),
                    fmt::format("no multiple of {} = {} (train.batch) x {} ({})", per_batch, train.batch, computing,
                                in_lines ? "lines" : "ranks"),
                    "a smaller train.batch fits more numbers of ranks");
}

void require_whole_groups(std::int64_t world, const Config& config, std::string_view key) {
  const int ranks = static_cast<int>(world), group = config.engine.group;
  config.local.on ? mesh_of_local(ranks, group, key) : mesh_of(ranks, group, key);
}

void require_secondary_groups(std::int64_t world, const Config& config, std::string_view key) {
  if (config.engine.secondary_group == 0) return;
  const int ranks = static_cast<int>(world);
  const Mesh mesh = mesh_of(ranks, config.engine.group);
  require_secondary_group(mesh.shard, config.engine.secondary_group, key);
}

void fit_to_world(LoadedConfig& loaded, std::int64_t world) {
  if (world < 1) throw ConfigError("world", std::to_string(world), "no ranks", "allowed: 1 or more");
  // With a pipeline the ranks at a position hold the same sections, and are divided into groups.
  if (loaded.config.engine.sync.servers == 0) require_divides(loaded.config, world, where(loaded, "parallel.pipeline"));
  const std::int64_t holders = world / loaded.config.parallel.pipeline;
  require_whole_groups(holders, loaded.config, where(loaded, "zero.group"));
  require_secondary_groups(holders, loaded.config, where(loaded, "zero.secondary_group"));
  check_shard_weights(loaded, holders);
  const SyncPlan& sync = loaded.config.engine.sync;
  const std::int64_t servers = sync.servers;
  if (servers >= world)
    throw ConfigError(where(loaded, "sync.servers"), std::to_string(servers),
                      fmt::format("no rank is left for a worker: the run has {}", format_count(world, "rank")),
                      world > 1 ? fmt::format("use at most {}, or more ranks (-n)", world - 1)
                                : std::string("start more ranks (-n), or use sync.mode sync without servers"));
  if (servers > 0 && world > kMaxBoardRanks)
    throw ConfigError(where(loaded, "sync.servers"), std::to_string(servers),
                      fmt::format("servers and workers make {}, more than a run can have", format_count(world, "rank")),
                      fmt::format("use at most {} ranks, or leave out sync.servers", kMaxBoardRanks));
  world -= servers;                          // the ranks that compute
  world /= loaded.config.parallel.pipeline;  // the ranks of a line compute the same samples
  const bool waits_for_some = sync.mode == SyncMode::kSync && servers > 0;
  if (const std::int64_t quorum = sync.quorum; waits_for_some && quorum > world)
    throw ConfigError(where(loaded, "sync.quorum"), std::to_string(quorum),
                      fmt::format("there are {}", format_count(world, "worker")),
                      fmt::format("use 1 to {}, or 0 for all", world));
  fit_batch(loaded, world);
  check_shares(loaded, world);
  check_share_most(loaded, world);
  require_passes(loaded.config);
}

void settle_epochs(LoadedConfig& loaded, std::int64_t samples) {
  auto& train = loaded.config.train;
  const std::int64_t global = train.global_batch, epochs = train.epochs;
  if (samples < 1 || epochs > kMostSteps * global / samples)
    throw ConfigError(where(loaded, "train.epochs"), std::to_string(epochs),
                      fmt::format("give no number of steps from 1 to {}: an epoch has {} samples", kMostSteps, samples),
                      "use fewer epochs, or train.steps");
  train.steps = (epochs * samples + global - 1) / global;
  train.epochs = 0;
  loaded.origins["train.steps"] = loaded.origins["train.epochs"];
  loaded.origins.erase("train.epochs");
  settle_defaults(loaded);
  check_rules(loaded);
}

}  // namespace zero
