// ServerRole: a rank that updates in a run with servers. The servers form one engine.
//
//   ServerRole role(run, options);
//   role.attach(engine);
//   role.run_without_steps(0);            // serves until all workers have left
//   server_of(role)->num_clocks()
//
// A checkpoint has the older versions of the weights, for workers that are behind. Collective over the servers.
#pragma once

#include <optional>

#include "zero/serve/push_server.h"
#include "zero/serve/role/served_role.h"

namespace zero {

class ServerRole final : public ServedRole {
 public:
  ServerRole(Communicator& run, const AttachOptions& options);

  void attach(RankEngine& engine) override;
  void release() override;
  // Throws ConfigError, because a server computes no gradients.
  StepReport step(const StepRates& rates, const StepLimits& limits) override;
  bool run_without_steps(std::int64_t step) override;

  std::vector<RoleState> states() const override;
  // Takes older versions only if the checkpoint has as many servers, with the same cut.
  void restore(const SavedRole& saved) override;

  // Null before attach().
  PushServer* server() { return server_ ? &*server_ : nullptr; }

 private:
  std::optional<PushServer> server_;
};

// Returns the server of this rank; null: the rank has another role.
PushServer* server_of(RankRole& role);

}  // namespace zero
