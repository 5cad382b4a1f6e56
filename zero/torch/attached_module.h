// AttachedModule: the seam between one model and its engine; the implementation of Engine.
//
// The fallback in parameter_use.cpp calls use() for each operator on a parameter. A hook on each parameter's
// AccumulateGrad node calls take_gradient(). The engine calls bind() with the address of a unit's bytes. The parts:
//
//   AttachedParameters    the tensors, and the addresses of their memory   OperatorPass   the pass of an operator
//   AttachedStates        reading parameters, moments and gradients        first_values   the values at the beginning
//   AttachedCheckpoints   saving and loading                               AttachedRole   the rank as server or worker
//   OpenScopes            gathered(), averaged() and frozen()
#pragma once

#include <memory>

#include "zero/base/process/fork_mark.h"
#include "zero/engine/options/engine_host.h"
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

  void bind(int unit, std::byte* data) override;
  // Called by the fallback before an operator runs on parameter `param`.
  GatheredUnit use(int param, bool writes) override;
  void wrote(int param, const GatheredUnit& held) override;
  at::Tensor rows_of_all_ranks(int param, const at::Tensor& rows) override;
  // Called by the gradient hook when autograd has computed a gradient of `param`.
  void take_gradient(int param) override;

  StepReport step(const StepRates& rates, const StepLimits& limits);
  // The two halves of step(), for a section of a model (zero/torch/pipeline).
  StepSync agree_step(const StepRates& rates, const StepLimits& limits);
  StepReport carry_out_step(const StepSync& agreed, const StepRates& rates);
  // Counts uses within a backward pass as uses of a forward pass, while `on`. A section's backward pass may use a
  // parameter of another section before that section's own backward pass.
  void count_backward_as_forward(bool on) { backward_as_forward_ = on; }
  // Collective. Drops all gradients and micro-batches of the running step.
  void discard_gradients();
  // Collective. Drops the gradients of parameters on which zero_grad() was called since the last call; no-op if it was
  // not called.
  void drop_zeroed();
  LoadedCheckpoint load(const std::filesystem::path& path, const FileCalls& calls, FetchCall fetch = {});
  // Load several models, see zero/torch/save_all.h: first all checks, then the changes. From begin_load() to end_load()
  // there are no values.
  AttachedCheckpoints::Checked check_load(const std::filesystem::path& path, const FileCalls& calls,
                                          std::span<const std::string> whole_model = {});
  void begin_load() { awaits_load_ = true; }
  LoadedCheckpoint fill(AttachedCheckpoints::Checked& checked);
  void end_load();

  // Local. True in a process that was forked since attach().
  bool in_child() const { return made_here_.in_child(); }
  void refuse_in_child() const {
    if (in_child()) [[unlikely]]
      made_here_.refuse_in_child(world_.rank());
  }
  // Throws ConfigError while there are no values: none were loaded, or a load failed; and in a forked process. A
  // worker takes the servers' weights here.
  void require_loaded();
  // Throw ConfigError if there are no values, or if a parameter was replaced since attach().
  AttachedStates& states();
  AttachedCheckpoints& checkpoints();
  bool has_room_to_copy(std::int64_t bytes) { return checkpoints_->has_room_to_copy(bytes); }

  const AttachedParameters& parameters() const { return parameters_; }
  RankEngine& engine() const { return *engine_; }
  AttachedRole& role() { return role_; }
  const World& world() const { return world_; }
  // The device on which the model computes. Shared, because activation stores may outlive the attached module.
  const std::shared_ptr<Device>& device() const { return device_; }
  OpenScopes& scopes() { return *scopes_; }

 private:
  void before_step(const StepRates& rates);
  void drop(const std::vector<bool>& params);
  bool watches_write(int unit) const;
  static void refuse_statistics(const ModelTensors& model, const AttachOptions& options);
  void end();
  void give_back_all();

  const World& world_;
  std::shared_ptr<Device> device_;  // a runner's device belongs to the runner
  AttachedParameters parameters_;
  AttachedRole role_;
  NamedBuffers buffers_;  // each tensor once
  std::unique_ptr<RankEngine> engine_;
  std::unique_ptr<AttachedStates> states_;
  std::unique_ptr<AttachedCheckpoints> checkpoints_;
  std::unique_ptr<OpenScopes> scopes_;
  OperatorPass pass_;
  int exceptions_at_start_ = 0;
  bool awaits_load_ = false;
  bool gives_back_ = true;
  bool ending_ = false;
  bool backward_as_forward_ = false;
  ForkMark made_here_;
};

// An attached module with this thread inside its world's gate: Inside(attached)->step(lr, limits).
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
