#include "zero/plan/served/sync_plan.h"

#include <array>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/numbers/number_range.h"
#include "zero/base/text/bytes.h"

namespace zero {

std::string_view name_of(SyncMode mode) {
  constexpr std::array<std::string_view, 3> kNames{"sync", "stale", "async"};
  return kNames[static_cast<std::size_t>(mode)];
}

namespace {

void require_servers(const SyncPlan& plan, int world) {
  require_number("sync.servers", plan.servers, kAtLeastZero, "use 0 for none, or for example 1");
  if (plan.mode != SyncMode::kSync && !plan.has_servers())
    throw ConfigError("sync.mode", name_of(plan.mode), "it needs a server, and sync.servers = 0",
                      "set sync.servers to 1 or more");
  if (!plan.has_servers() || plan.servers < world) return;
  throw ConfigError("sync.servers", fmt::format("{}", plan.servers),
                    fmt::format("no rank is left for a worker: the run has {}", format_count(world, "rank")),
                    world > 1 ? fmt::format("use at most {}, or more ranks (-n)", world - 1)
                              : std::string("start more ranks (-n), or use sync.mode sync without servers"));
}

}  // namespace

void require_possible(const SyncPlan& plan, int world) {
  require_servers(plan, world);
  require_number("sync.staleness", plan.staleness, kAtLeastZero, "use for example 1, or 0 (no gradient is stale)");
  if (plan.staleness > 0 && plan.mode == SyncMode::kSync)
    throw ConfigError("sync.staleness", fmt::format("{}", plan.staleness), "with sync.mode sync no gradient is stale",
                      "leave it out, or use sync.mode stale or async");
  if (plan.mode == SyncMode::kStale && plan.staleness > kMostStaleness)
    throw ConfigError("sync.staleness", fmt::format("{}", plan.staleness),
                      "servers keep that many older versions of the weights",
                      fmt::format("use at most {}", kMostStaleness));
  require_number("sync.stale_lr", plan.stale_lr, kAtLeastZero,
                 "use 1 (the learning rate falls with the age), or 0 (it does not)");
  require_number("sync.compensation", plan.compensation, kAtLeastZero,
                 "use for example 0.04, or 0 (gradients are applied as received)");
  if (plan.compensation > 0 && plan.mode != SyncMode::kAsync)
    throw ConfigError("sync.compensation", fmt::format("{}", plan.compensation),
                      "only sync.mode async applies the gradients of single workers",
                      "leave it out, or use sync.mode async");
  if (plan.quorum == 0) return;
  if (plan.mode != SyncMode::kSync || !plan.has_servers())
    throw ConfigError("sync.quorum", fmt::format("{}", plan.quorum),
                      "only servers with sync.mode sync continue without some gradients",
                      "leave it out, or use sync.mode sync with sync.servers");
  const int workers = plan.num_workers(world);
  if (plan.quorum < 0 || plan.quorum > workers)
    throw ConfigError("sync.quorum", fmt::format("{}", plan.quorum),
                      fmt::format("there are {}", format_count(workers, "worker")),
                      fmt::format("use 1 to {}, or 0 for all", workers));
}

}  // namespace zero
