// AttachedModule: the seam between one model and its engine; the implementation of Attachment.
//
// Operators that take a parameter arrive through the fallback in parameter_use.cpp; gradients through a hook on each
// parameter's AccumulateGrad node; the engine answers with where a unit's bytes are. Who does what:
//
//   AttachedParameters    the tensors, and where their memory is       OperatorPass   which pass an operator belongs to
//   AttachedStates        reading parameters, moments and gradients    first_values   where all begins
//   AttachedCheckpoints   saving and loading                           AttachedRole   whether this rank serves or works
//   OpenScopes            gathered(), averaged() and frozen()
#pragma once

#include <memory>

#include "zero/engine/options/engine_seams.h"
#include "zero/torch/attach.h"
#include "zero/torch/attached_checkpoints.h"
#include "zero/torch/attached_parameters.h"
#include "zero/torch/attached_role.h"
#include "zero/torch/attached_states.h"
#include "zero/torch/open_scopes.h"
#include "zero/torch/seam/operator_pass.h"

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
  void wrote(int param, const GatheredUnit& held) override;
  at::Tensor rows_of_all_ranks(int param, const at::Tensor& rows) override;
  // Called by the gradient hook: autograd made a gradient of `param`.
  void take_gradient(int param) override;

  StepReport step(double lr, const StepLimits& limits);
  // Collective. Drops all gradients and micro-batches that the running step has so far.
  void discard_gradients();
  // Collective. Drops the gradients of parameters on which zero_grad() was called since; no-op if it was not.
  void drop_zeroed();
  LoadedCheckpoint load(const std::filesystem::path& path, const FileCalls& calls, FetchCall fetch = {});
  // The same of several models, see zero/torch/save_all.h: all checks, then the change, before which there are no values.
  AttachedCheckpoints::Checked check_load(const std::filesystem::path& path, const FileCalls& calls);
  void begin_load() { awaits_load_ = true; }
  LoadedCheckpoint fill(AttachedCheckpoints::Checked& checked);
  void end_load();

  // ConfigError while there are no values: none were loaded, or a load failed. A worker takes the servers' here.
  void require_loaded();
  // ConfigError without values, or where parameters are not ours any more.
  AttachedStates& states();
  AttachedCheckpoints& checkpoints();
  bool has_room_to_copy(std::int64_t bytes) { return checkpoints_->has_room_to_copy(bytes); }

  const AttachedParameters& parameters() const { return parameters_; }
  Engine& engine() const { return *engine_; }
  AttachedRole& role() { return role_; }
  const World& world() const { return world_; }
  // Where the model computes. Kept by whoever may be left when this is gone.
  const std::shared_ptr<Device>& device() const { return device_; }
  OpenScopes& scopes() { return *scopes_; }

 private:
  void drop(const std::vector<bool>& params);
  bool watches_write(int unit) const;
  static void refuse_statistics(const ModelTensors& model);
  void end();
  void give_back_all();

  const World& world_;
  std::shared_ptr<Device> device_;  // that of a runner is the runner's
  AttachedParameters parameters_;
  AttachedRole role_;
  NamedBuffers buffers_;  // each tensor once
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<AttachedStates> states_;
  std::unique_ptr<AttachedCheckpoints> checkpoints_;
  std::unique_ptr<OpenScopes> scopes_;
  OperatorPass pass_;
  int exceptions_at_start_ = 0;
  bool awaits_load_ = false;
  bool gives_back_ = true;
  bool ending_ = false;
};

}  // namespace zero
