#include "app/config/rules/leaf_rules.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "zero/base/error/error.h"
#include "zero/base/text/bytes.h"
#include "zero/engine/options/leaf_options.h"

#include "app/config/options/option.h"
#include "app/config/options/with_origins.h"
#include "app/config/rules/read_keys.h"

namespace zero {
namespace {

std::string where_is(const LoadedConfig& loaded, std::string_view name) {
  const auto origin = loaded.origins.find(name);
  return located(origin == loaded.origins.end() ? "" : origin->second, name);
}

[[noreturn]] void refuse_leaves(const LoadedConfig& loaded, std::string_view reason, std::string_view remedy) {
  throw ConfigError(where_is(loaded, "train.leaves"), std::to_string(loaded.config.train.leaves), reason, remedy);
}

std::string numbers_that_divide(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t divisor = 1; divisor <= number && all.size() < 12; ++divisor)
    if (number % divisor == 0) all.push_back(divisor);
  return fmt::format("{}", fmt::join(all, ", "));
}

// Returns the engine's options of leaves.
AttachOptions engine_options(const Config& config) {
  AttachOptions options = config.engine;
  options.leaves = static_cast<int>(config.train.leaves);
  if (config.local.on) options.local = config.local;
  if (config.comm.topk) options.wire.outer_topk = config.comm.topk_share;
  return options;
}

}  // namespace

void check_leaves(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  if (config.train.leaves == 0) return;
  const auto refuse_if = [&](bool broken, std::string_view reason, std::string_view remedy) {
    if (broken) refuse_leaves(loaded, reason, remedy);
  };
  refuse_if(config.train.share.kind != ShareKind::kEqual, "all leaves have the same samples (train.share)",
            "leave it out, or set train.share = \"equal\"");
  refuse_if(config.train.gradient_noise > 0, "noise is added by one rank for all (train.gradient_noise)",
            "leave it out, or set train.gradient_noise = 0");
  with_origins(loaded.origins, [&] { require_leaves(engine_options(config)); });
}

std::int64_t accumulate_of_leaves(std::int64_t world, const Config& config) {
  return Leaves(static_cast<int>(config.train.leaves), static_cast<int>(world), config.engine.reduce).passes();
}

void fit_leaves(LoadedConfig& loaded, std::int64_t world) {
  Config& config = loaded.config;
  TrainKeys& train = config.train;
  const std::int64_t leaves = train.leaves;
  const auto given = [&](std::string_view name) { return loaded.origins.contains(name); };
  if (!given("train.reduce")) config.engine.reduce = Reduce::kAuto;
  const std::int64_t passes = with_origins(loaded.origins, [&] { return accumulate_of_leaves(world, config); });
  if (given("train.accumulate") && train.accumulate != passes)
    throw ConfigError(where_is(loaded, "train.accumulate"), std::to_string(train.accumulate),
                      fmt::format("{} compute train.leaves = {} in {} micro-batches each", format_count(world, "rank"),
                                  leaves, passes),
                      "leave it out: it follows from train.leaves");
  train.accumulate = passes;
  if (train.global_batch == 0) {
    train.global_batch = train.batch * leaves;
    return;
  }
  if (train.global_batch % leaves != 0)
    refuse_leaves(loaded, fmt::format("does not divide train.global_batch = {}", train.global_batch),
                  fmt::format("use {}, or another train.global_batch", numbers_that_divide(train.global_batch)));
  const std::int64_t batch = train.global_batch / leaves;
  if (given("train.batch") && train.batch != batch)
    throw ConfigError(
        where_is(loaded, "train.global_batch"), std::to_string(train.global_batch),
        fmt::format("but train.batch {} x train.leaves {} = {}", train.batch, leaves, train.batch * leaves),
        "leave out train.batch or train.global_batch: it follows from the other");
  train.batch = batch;
}

}  // namespace zero
