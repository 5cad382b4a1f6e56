// AttachedModule: the seam between one model and its engine; the implementation of Engine.
//
// The fallback in parameter_use.cpp calls use() for each operator on a parameter. A hook on each parameter's
// AccumulateGrad node calls take_gradient(). The engine calls bind() with the address of a unit's bytes. The parts are
// in zero/torch/attached, except RankRole and OperatorPass:
//
//   AttachedParameters    the tensors, and the addresses of their memory   AttachedSteps    steps; dropped gradients
//   AttachedGradients     gradients on their way to the engine             OpenScopes       gathered(), averaged() ...
//   AttachedStates        reading parameters, moments and gradients        first_values     the values at the beginning
//   AttachedCheckpoints   saving and loading                               AttachedValues   whether there are values
//   RankRole              the rank's half of a step (zero/engine)          OperatorPass     the pass of an operator
#pragma once

#include <memory>
#include <optional>

#include <c10/core/Stream.h>

#include "zero/comm/transport/world.h"
#include "zero/engine/options/engine_host.h"
#include "zero/engine/rank_role.h"
#include "zero/torch/attached/attached_checkpoints.h"
#include "zero/torch/attached/attached_gradients.h"
#include "zero/torch/attached/attached_parameters.h"
#include "zero/torch/attached/attached_states.h"
#include "zero/torch/attached/attached_steps.h"
#include "zero/torch/attached/attached_values.h"
#include "zero/torch/attached/open_scopes.h"
#include "zero/torch/module/model_tensors.h"
#include "zero/torch/seam/operator_pass.h"

namespace zero {

class AttachedModule final : public UnitObserver, public ParameterOwner {
 public:
  // Collective. If it throws ConfigError, the model is unchanged.
  AttachedModule(const ModelTensors& model, World& world, AttachOptions options, const EngineHost& host = {});
  // Collective. Gives every parameter back in full, as detach() does, but only warns if that fails. While an exception
  // unwinds, or after abandon(), the parameters are left empty instead, because the peers may have ended.
  ~AttachedModule() override;
  AttachedModule(const AttachedModule&) = delete;
  AttachedModule& operator=(const AttachedModule&) = delete;

  // Collective. Gives every parameter back. Afterwards the object is unusable.
  void detach();
  void abandon() { gives_back_ = false; }

  // Counts uses within a backward pass as uses of a forward pass, while `on`. A section's backward pass may use a
  // parameter of another section before that section's own backward pass.
  void count_backward_as_forward(bool on) { backward_as_forward_ = on; }

  // Throw ConfigError if there are no values, or if a parameter was replaced since attach().
  AttachedStates& states();
  AttachedCheckpoints& checkpoints();
  // For loading: values may be missing. Throws ConfigError if a parameter was replaced since attach().
  AttachedCheckpoints& checkpoints_to_load();
  bool has_room_to_copy(std::int64_t bytes) { return checkpoints_->has_room_to_copy(bytes); }

  // Ends the scopes that an exception left, because a step or another Collective call begins.
  AttachedSteps& steps() {
    scopes_->end_left();
    return *steps_;
  }
  AttachedValues& values() { return values_; }
  const AttachedParameters& parameters() const { return parameters_; }
  RankEngine& engine() const { return *engine_; }
  RankRole& role() { return *role_; }
  const World& world() const { return world_; }
  // The device on which the model computes. Shared, because activation stores may outlive the attached module.
  const std::shared_ptr<Device>& device() const { return device_; }
  OpenScopes& scopes() { return *scopes_; }

 private:
  struct ReleaseRole {
    void operator()(RankRole* role) const { role->release(); }
  };

  void bind(int unit, std::byte* data) override;
  // Called by the fallback before an operator runs on parameter `param`.
  GatheredUnit use(int param, bool writes) override;
  void wrote(int param, const GatheredUnit& held) override;
  at::Tensor rows_of_all_ranks(int param, const at::Tensor& rows) override;
  // Called by the gradient hook when autograd has computed a gradient of `param`.
  void take_gradient(int param) override;

  bool watches_write(int unit) const;
  void refuse_statistics(const ModelTensors& model, int leaves) const;
  void end();
  void end_exchanges();
  void give_back_all();

  const World& world_;
  std::shared_ptr<Device> device_;     // a runner's device belongs to the runner
  std::optional<c10::Stream> stream_;  // the GPU's stream at attach(); empty on the CPU
  AttachedParameters parameters_;
  AttachedGradients gradients_;
  std::unique_ptr<RankRole> role_;
  AttachedValues values_;
  NamedBuffers buffers_;  // each tensor once
  std::unique_ptr<RankEngine> engine_;
  std::unique_ptr<RankRole, ReleaseRole> attached_role_;  // releases the role before the engine is destroyed
  std::unique_ptr<AttachedStates> states_;
  std::unique_ptr<AttachedCheckpoints> checkpoints_;
  std::unique_ptr<OpenScopes> scopes_;
  std::unique_ptr<AttachedSteps> steps_;
  OperatorPass pass_;
  int exceptions_at_start_ = 0;
  bool gives_back_ = true;
  bool ending_ = false;
  bool backward_as_forward_ = false;
};

// An attached module with this thread inside its world's gate: Inside(attached)->steps().step(rates, limits).
class Inside {
 public:
  explicit Inside(AttachedModule& attached)
      : attached_(attached), entry_(attached.world().gate(), attached.world().rank()) {}
  AttachedModule* operator->() const { return &attached_; }

 private:
  AttachedModule& attached_;
  ThreadGate::Entry entry_;
};

}  // namespace zero
