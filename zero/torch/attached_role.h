// AttachedRole: what one rank of a run with servers is: a server or a worker, with the communicator and the options of its
// engine. Without servers it is neither, and both are the caller's.
//
//   AttachedRole role(world.communicator(), options);          // Collective over the run
//   Engine engine(role.comm(), specs, units, role.options(), observer);
//   role.attach(engine);
//   role.worker() == nullptr || role.worker()->begin();        // takes the first weights
//
// Throws ConfigError before anything is allocated, for what does not go with servers.
#pragma once

#include <memory>
#include <optional>

#include "zero/serve/push_server.h"
#include "zero/serve/push_worker.h"

namespace zero {

class AttachedRole {
 public:
  AttachedRole(Communicator& run, EngineOptions options);

  Communicator& comm() const { return own_ == nullptr ? run_ : *own_; }
  const EngineOptions& options() const { return options_; }
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
