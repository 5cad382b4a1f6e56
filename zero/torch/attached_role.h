// AttachedRole: what one rank of a run with servers is: a server or a worker, with the communicator and the options of its
// engine. Without servers it is neither, and both are the caller's.
//
//   AttachedRole role(world.communicator(), options);          // Collective over the run
//   Engine engine(role.comm(), specs, units, role.options(), observer);
//   role.attach(engine);
//   role.worker() == nullptr || role.worker()->begin();        // takes the first weights
//
// For a replacement of a lost worker (zero/comm/replacements.h) it is Local: the others have done their part. A worker may
// be lost from attach() on, where the plan goes on without it; one that ends before ends the run, as ranks still wait for
// its part of what all do at their start.
//
// Throws ConfigError before anything is allocated, for what does not go with servers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "zero/comm/board/arrivals.h"
#include "zero/serve/push_server.h"
#include "zero/serve/push_worker.h"

namespace zero {

// The units of a rank's engine: as the servers share them, or whole for a worker; without servers as all ranks have them.
// Local.
std::vector<Unit> units_of_role(const std::vector<ParamSpec>& specs, const Communicator& run,
                                const EngineOptions& options);

class AttachedRole {
 public:
  AttachedRole(Communicator& run, EngineOptions options);

  Communicator& comm() const { return own_ == nullptr ? run_ : *own_; }
  const EngineOptions& options() const { return options_; }
  // Where rank 0's buffers come from: the run, but for a replacement, whose module makes the same.
  Communicator& comm_of_buffers() const { return is_replacement(run_) ? *own_ : run_; }
  bool is_worker() const { return options_.updated_elsewhere; }

  // Collective over the servers; Local on a worker. The engine outlives it.
  void attach(Engine& engine);
  // Null: this rank is none. Servers begin with the clock that the engine has come to.
  PushWorker* worker() { return worker_ ? &*worker_ : nullptr; }
  PushServer* server() { return server_ ? &*server_ : nullptr; }
  // Collective over the servers: from `clock` until all workers have left. ConfigError on a rank that is no server.
  void serve(std::int64_t clock);

 private:
  Communicator& run_;
  EngineOptions asked_, options_;
  std::unique_ptr<Communicator> own_;  // of the servers, or of a worker alone; null where there are no servers
  std::optional<PushWorker> worker_;
  std::optional<PushServer> server_;
};

}  // namespace zero
