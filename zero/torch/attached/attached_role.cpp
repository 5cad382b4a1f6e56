#include "zero/torch/attached/attached_role.h"

#include <numeric>
#include <utility>

#include "zero/base/error/error.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/group.h"
#include "zero/engine/options/options.h"

namespace zero {
namespace {

AttachOptions options_of(const AttachOptions& options, int rank) {
  if (!options.sync.has_servers()) return options;
  return options.sync.is_server(rank) ? server_options(options) : worker_options(options);
}

std::unique_ptr<Communicator> open_role(Communicator& run, const SyncPlan& plan) {
  if (!plan.has_servers()) return nullptr;
  if (is_replacement(run)) return open_alone(run, "a worker");
  if (!plan.is_server(run.rank())) return open_group(run, {run.rank()}, "a worker");
  std::vector<int> servers(static_cast<std::size_t>(plan.servers));
  std::iota(servers.begin(), servers.end(), 0);
  return open_group(run, servers, "servers");
}

}  // namespace

std::vector<Unit> units_of_role(const std::vector<ParamSpec>& specs, const Communicator& run,
                                const AttachOptions& options) {
  const SyncPlan& sync = options.sync;
  if (!sync.has_servers()) return units_of(specs, run.world(), options);
  return sync.is_server(run.rank()) ? units_of(specs, sync.servers, options)
                                    : units_of(specs, 1, with_equal_ranges(options));
}

AttachedRole::AttachedRole(Communicator& run, AttachOptions options) : run_(run), asked_(std::move(options)) {
  require_possible(asked_.sync, run.world());
  if (asked_.sync.has_servers()) require_arrivals(run);
  options_ = options_of(asked_, run.rank());
  own_ = open_role(run, asked_.sync);
}

void AttachedRole::attach(RankEngine& engine) {
  if (own_ == nullptr) return;
  if (is_worker()) {
    worker_.emplace(engine, run_, asked_);
    if (asked_.sync.spares_workers()) run_.arrivals()->may_be_lost();
  } else {
    server_.emplace(engine, run_, asked_);
  }
}

void AttachedRole::serve(std::int64_t clock) {
  if (!server_)
    throw ConfigError("serve", "", "called on a rank that is not a server",
                      "call it only on the first sync.servers ranks");
  server_->begin(clock);
  while (!server_->is_over()) server_->serve(server_->num_clocks() + 1, {});
}

}  // namespace zero
