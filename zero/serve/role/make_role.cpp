#include "zero/serve/role/make_role.h"

#include <utility>

#include "zero/comm/board/arrivals.h"
#include "zero/engine/states/shard_weights.h"
#include "zero/serve/role/server_role.h"
#include "zero/serve/role/worker_role.h"

namespace zero {

std::unique_ptr<RankRole> make_role(Communicator& run, const AttachOptions& options) {
  const SyncPlan& sync = options.sync;
  require_possible(sync, run.world());
  if (!sync.has_servers()) return std::make_unique<RankRole>(run, options);
  require_arrivals(run);
  if (sync.is_server(run.rank())) return std::make_unique<ServerRole>(run, options);
  return std::make_unique<WorkerRole>(run, options);
}

std::vector<Unit> units_of_role(const std::vector<ParamSpec>& specs, const Communicator& run,
                                const AttachOptions& options) {
  const SyncPlan& sync = options.sync;
  if (!sync.has_servers()) return units_of(specs, run.world(), options);
  return sync.is_server(run.rank()) ? units_of(specs, sync.servers, options)
                                    : units_of(specs, 1, with_equal_ranges(options));
}

AttachOptions with_weights_of_owners(AttachOptions options, Communicator& run, int local_world) {
  const SyncPlan& sync = options.sync;
  if (options.shards != Cut::kWeighted || is_replacement(run)) return options;
  require_possible(sync, run.world());
  const int owners = sync.has_servers() ? sync.servers : run.world();
  return with_shard_weights(std::move(options), run, local_world, owners);
}

}  // namespace zero
