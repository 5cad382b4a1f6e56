// AttachedModule: the seam between one model and its engine; the implementation of Attachment.
//
// Operators that take a parameter arrive through the fallback in parameter_use.cpp; gradients through a hook on each
// parameter's AccumulateGrad node; the engine answers with where a unit's bytes are. Who does what:
//
//   AttachedParameters    the tensors, and where their memory is       OperatorPass   which pass an operator belongs to
//   AttachedStates        reading parameters, moments and gradients    first_values   where all begins
//   AttachedCheckpoints   saving and loading                         AttachedRole   whether this rank serves or works
#pragma once

#include <memory>
#include <vector>

#include "zero/engine/engine_seams.h"
#include "zero/torch/attach.h"
#include "zero/torch/attached_checkpoints.h"
#include "zero/torch/attached_parameters.h"
#include "zero/torch/attached_role.h"
#include "zero/torch/attached_states.h"
#include "zero/torch/operator_pass.h"

namespace zero {

class AttachedModule final : public UnitObserver, public ParameterOwner {
 public:
  // Collective. Throws ConfigError; the model is then as it was.
  AttachedModule(const ModelTensors& model, World& world, AttachOptions options, const EngineSeams& seams = {});
  // Collective. Gives every parameter back in full, as detach() does, but only warns of what goes wrong; while an
  // exception unwinds, or after abandon(), parameters are left empty instead, since the peers may be gone.
  ~AttachedModule() override;
  AttachedModule(const AttachedModule&) = delete;
  AttachedModule& operator=(const AttachedModule&) = delete;

  // Collective. Nothing is possible with it afterwards.
  void detach();
  void abandon() { gives_back_ = false; }

  void bind(int unit, std::byte* data) override;
  // Called by the fallback: an operator is about to run on parameter `param`.
  GatheredUnit use(int param, bool writes) override;
  // Called by the gradient hook: autograd made a gradient of `param`.
  void take_gradient(int param) override;

  StepReport step(double lr, const StepLimits& limits);
  LoadedCheckpoint load(const std::filesystem::path& path, const FileCalls& calls);

  // While parameters are not whole, or not ours any more: ConfigError.
  AttachedStates& states();
  AttachedCheckpoints& checkpoints();
  bool has_room_to_copy(std::int64_t bytes) { return checkpoints_->has_room_to_copy(bytes); }

  // The ends of a GatheredScope and of a FrozenScope.
  void gather_for_everybody(const std::vector<int>& units);
  void release_from_everybody(const std::vector<int>& units, int source_rank);
  void exchange_averages();  // of an AveragedScope, too
  // Parameters are a copy's own, which trains apart from others.
  bool trains_apart() const;
  void freeze() { ++num_frozen_; }
  void thaw() { --num_frozen_; }

  const AttachedParameters& parameters() const { return parameters_; }
  Engine& engine() const { return *engine_; }
  AttachedRole& role() { return role_; }
  // Of a server: until all workers have left.
  void serve();

 private:
  static void refuse_statistics(const ModelTensors& model);
  void require_loaded();
  const GatheredUnit& held_in_a_scope(int unit) const;
  void end();
  void give_back_all();

  AttachedParameters parameters_;
  AttachedRole role_;
  NamedBuffers buffers_;  // each tensor once
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<AttachedStates> states_;
  std::unique_ptr<AttachedCheckpoints> checkpoints_;
  std::vector<std::vector<GatheredUnit>> scopes_;  // of gathered(), innermost last
  OperatorPass pass_;
  int num_frozen_ = 0;
  int exceptions_at_start_ = 0;
  bool awaits_load_ = false;
  bool gives_back_ = true;
  bool ending_ = false;
};

}  // namespace zero
