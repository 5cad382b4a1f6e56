// AttachedModule: the seam between one torch module and the engine. What an Attachment hides.
//
// Operators that take a parameter arrive through the fallback in parameter_use.cpp; gradients through a hook on each
// parameter's AccumulateGrad node; the engine answers with where a unit's bytes are, and this class points the
// parameters' storages there.
#pragma once

#include <memory>
#include <vector>

#include <torch/nn/module.h>

#include "zero/engine/engine.h"
#include "zero/torch/attach.h"
#include "zero/torch/parameter_storage.h"
#include "zero/torch/rank_extras.h"

namespace torch::autograd {
struct Node;
}

namespace zero {

class AttachedModule final : public UnitObserver, public ParameterOwner {
 public:
  // Collective. Throws ConfigError; the module is then as it was.
  AttachedModule(torch::nn::Module& module, World& world, AttachOptions options);
  // Collective. Gives every parameter back in full; while an exception unwinds, or after abandon(), parameters are left
  // empty instead (no storage), since the peers may be gone.
  ~AttachedModule() override;
  AttachedModule(const AttachedModule&) = delete;
  AttachedModule& operator=(const AttachedModule&) = delete;

  void bind(int unit, std::byte* data) override;
  void abandon() { abandoned_ = true; }

  // Called by the fallback: an operator is about to run on parameter `param`.
  GatheredUnit use(int param, bool writes) override;
  // Called by the gradient hook: autograd made a gradient of `param`.
  void take_gradient(int param) override;

  // Throws ConfigError naming the first parameter that is not ours any more.
  void verify() const;
  StepReport step(double lr, const StepLimits& limits = {});
  double lr() const { return learning_rate(options_.optimizer); }
  // The units that hold the parameters of `module`, which must be the attached one or lie inside it.
  std::vector<int> units_of(const torch::nn::Module& module) const;
  void gather_for_everybody(const std::vector<int>& units);
  void release_from_everybody(const std::vector<int>& units, int source_rank);
  void for_each_parameter(const std::function<void(const std::string&, const torch::Tensor&)>& visit,
                          bool full_precision);
  void export_weights(const std::filesystem::path& path, bool full_precision);

  // Collective; as Attachment's.
  std::unique_ptr<CheckpointSave> begin_save(const std::filesystem::path& path, SaveContents contents, SaveMode mode);
  bool has_room_to_copy(std::int64_t bytes) { return images_->has_room(bytes); }
  bool keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents);
  LoadedCheckpoint load(const std::filesystem::path& path, const FileCalls& calls);

  Engine& engine() { return *engine_; }
  const Engine& engine() const { return *engine_; }

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> node;  // kept alive: the graph holds it weakly
    std::uintptr_t key = 0;
  };
  void require_loaded() const;
  // Throws ConfigError naming a parameter whose gradient was looked for in .grad() since the last call, or lies there.
  void refuse_gradients_elsewhere() const;
  void fill_unit(const Unit& unit, Communicator& comm);
  void build_unit(const Unit& unit, Communicator& comm);
  void take_over(const Unit& unit);
  void rehome(int param);
  void give_back_all();
  void give_back(int param, const std::byte* data);
  void forget(int param);
  void install_hook(int param);
  void prepare_buffers(torch::nn::Module& module, Communicator& comm);
  SaveContents with_extras(SaveContents contents) const;
  Use why() const;
  bool owns_generator() const;

  AttachOptions options_;
  std::vector<torch::Tensor> tensors_;  // by parameter: the module's own
  std::vector<ParamSpec> specs_;
  std::vector<Unit> units_;
  std::vector<SliceAddress> addresses_;
  std::vector<ParameterStorage> storages_;  // by parameter
  std::vector<Hook> hooks_;
  NamedBuffers buffers_;  // each tensor once
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<StagingMemory> images_;          // of one asynchronous save after another
  std::vector<std::vector<GatheredUnit>> scopes_;  // of gathered(), innermost last
  mutable Use last_use_ = Use::kForward;
  int exceptions_at_start_ = 0;
  bool awaits_load_ = false;
  bool abandoned_ = false;
  bool ending_ = false;
};

}  // namespace zero
