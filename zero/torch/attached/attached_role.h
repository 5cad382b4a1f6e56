// AttachedRole: a rank's role in a run with servers (server or worker), with its engine's communicator and options.
//
//   AttachedRole role(world.communicator(), options);          // Collective over the run
//   RankEngine engine(role.comm(), specs, units, role.options(), observer);
//   role.attach(engine);
//   role.worker() == nullptr || role.worker()->begin();        // takes the first weights
//
// Without servers the rank has no role: comm() and options() return the caller's. If the run can continue without a
// lost worker, that holds from attach() on. A worker that ends before attach() ends the run, because the other ranks
// still wait for it in the collectives of the start.
//
// The constructor is Local for a replacement of a lost worker (zero/comm/replacements.h). Throws ConfigError before
// anything is allocated, for options that cannot be combined with servers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "zero/comm/board/arrivals.h"
#include "zero/serve/push_server.h"
#include "zero/serve/push_worker.h"

namespace zero {

// Local. Returns the units of a rank's engine. On a server they are cut over the servers, on a worker they are whole.
// Without servers they are cut over all ranks.
std::vector<Unit> units_of_role(const std::vector<ParamSpec>& specs, const Communicator& run,
                                const AttachOptions& options);

class AttachedRole {
 public:
  AttachedRole(Communicator& run, AttachOptions options);

  Communicator& comm() const { return own_ == nullptr ? run_ : *own_; }
  const AttachOptions& options() const { return options_; }
  // The communicator over which rank 0's buffers are broadcast: the run's. A replacement uses its own, because its
  // module makes the same buffers.
  Communicator& comm_of_buffers() const { return is_replacement(run_) ? *own_ : run_; }
  bool is_worker() const { return asked_.sync.has_servers() && !asked_.sync.is_server(run_.rank()); }

  // Collective over the servers; Local on a worker. `engine` must outlive the object.
  void attach(RankEngine& engine);
  // Null: this rank has the other role, or none. Servers begin at the clock that the engine has reached.
  PushWorker* worker() { return worker_ ? &*worker_ : nullptr; }
  PushServer* server() { return server_ ? &*server_ : nullptr; }
  // Collective over the servers. Serves from `clock` until all workers have left. Throws ConfigError on a rank that is
  // not a server.
  void serve(std::int64_t clock);

 private:
  Communicator& run_;
  AttachOptions asked_, options_;
  std::unique_ptr<Communicator> own_;  // the group of the servers, or of one worker; null without servers
  std::optional<PushWorker> worker_;
  std::optional<PushServer> server_;
};

}  // namespace zero
