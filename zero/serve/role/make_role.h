// make_role(): a rank's role in its run, as the options say: with servers it is one of them or a worker.
//
//   options = with_weights_of_owners(std::move(options), run, world.local_size());
//   const std::vector<Unit> units = units_of_role(specs, run, options);
//   const std::unique_ptr<RankRole> role = make_role(run, options);
//
// Without servers every rank computes gradients and updates its states. Throws ConfigError before anything is
// allocated, for options that cannot be combined with servers.
#pragma once

#include <memory>
#include <vector>

#include "zero/engine/rank_role.h"

namespace zero {

// Collective over the run. Local for the replacement of a lost worker (zero/comm/replacements.h), and without servers.
std::unique_ptr<RankRole> make_role(Communicator& run, const AttachOptions& options);

// Local. Returns the units of the rank's engine. On a server they are cut over the servers, on a worker they are whole.
// Without servers they are cut over all ranks.
std::vector<Unit> units_of_role(const std::vector<ParamSpec>& specs, const Communicator& run,
                                const AttachOptions& options);

// with_shard_weights() for the ranks that own shards: the servers, or all ranks. A replacement takes no part, and
// receives the weights from the servers. Throws ConfigError also for a number of servers that the run cannot have.
AttachOptions with_weights_of_owners(AttachOptions options, Communicator& run, int local_world);

}  // namespace zero
