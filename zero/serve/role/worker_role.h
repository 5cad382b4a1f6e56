// WorkerRole: a rank that computes gradients in a run with servers. Its engine has one rank and no optimizer states.
//
//   WorkerRole role(run, options);
//   role.attach(engine);                  // from here on, if the plan allows it, the run goes on without this rank
//   role.begin();                         // receives the servers' weights
//   role.step(rates, {.loss = loss});     // pushes gradients
//   worker_of(role)->clock()
//
// A worker that ends before attach() ends the run, because the other ranks still wait for it in the collectives of the
// start. After that, its functions are Collective over this rank and the servers.
#pragma once

#include <optional>

#include "zero/serve/push_worker.h"
#include "zero/serve/role/served_role.h"

namespace zero {

class WorkerRole final : public ServedRole {
 public:
  WorkerRole(Communicator& run, const AttachOptions& options);

  // The module of a replacement makes the same buffers, so it takes none from rank 0.
  Communicator& comm_of_buffers() override;
  bool updated_elsewhere() const override { return true; }
  void refuse_device(const Device& device) const override;

  void attach(RankEngine& engine) override;
  void release() override;
  void begin() override;
  // Throws ConfigError for rates of groups, for a group with fewer micro-batches, and if this rank wrote into a
  // parameter.
  StepReport step(const StepRates& rates, const StepLimits& limits) override;
  void leave() override;

  // Null before attach().
  PushWorker* worker() { return worker_ ? &*worker_ : nullptr; }

 private:
  void require_step(const StepRates& rates, const StepLimits& limits) const;

  std::optional<PushWorker> worker_;
};

// Returns the worker of this rank; null: the rank has another role.
PushWorker* worker_of(RankRole& role);

}  // namespace zero
