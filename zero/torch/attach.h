// attach(): ZeRO for any torch::nn::Module, unmodified.
//
//   auto engine = zero::attach(*model, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 3e-4}, .clip = 1.0});
//   for (auto& [x, y] : batches) {
//     auto loss = cross_entropy(model->forward(x), y);
//     loss.backward();
//     engine.step();                    // reduces what is left, clips, updates, clears
//   }
//
// From attach() on, a parameter's storage is empty until an operator uses it; its name, shape, identity and autograd
// history stay. Rank 0's parameters and buffers are broadcast first; a module made by zero::deferred() is built here,
// unit by unit. Where `weights` are given, what the module holds is neither built nor kept: each parameter is asked for
// once, a unit at a time. With `awaits_load` none has a value before load(). Both are given on every rank, or on none.
// Gradients never appear in .grad(): they go to the engine as they are made.
//
// What does not work on an attached module:
//   - clip_grad_norm_(), the step() of another optimizer, and whatever else looks into .grad(): they would
//     find nothing, and do nothing.
//     The next step() is refused with the parameter's name (ConfigError); a program that never calls
//     step() gets a warning at the end. Clip with `clip`, and let step() update. A parameter that is a view of another
//     tensor is not watched.
//   - reading memory without an operator: torch::save(), OutputArchive, pickle_save(), data_ptr(), accessor(), the data
//     of storage(), DLPack. A parameter that is not whole here at that moment throws a c10::Error with its name. Write
//     files with export_weights(), or do it in a gathered() scope, which alone allows writing through a pointer.
//   - operators on some ranks only (`if (rank == 0) std::cout << weight`). clone(), to(), item(), Module::clone() and
//     printing give the whole value, but where parameters are sharded any operator on one is Collective: the rank waits
//     for the others until the world's timeout (CommError).
//   - Module::to(), set_data(), torch::load() into it, another tensor in a parameter's place: ConfigError at the next
//     step(). load() takes checkpoints, `weights` other files.
//   - requires_grad_() after attach(): what was frozen then is not trained; a gradient in its .grad() is a ConfigError.
//
// Gradients of a step's micro-batches are summed, as backward() sums them: divide each loss by their number, or set
// `average_micro_batches` (DeepSpeed's way).
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "zero/base/timeline.h"
#include "zero/checkpoint/in_memory_checkpoints.h"
#include "zero/checkpoint/load.h"
#include "zero/checkpoint/save.h"
#include "zero/engine/options.h"
#include "zero/engine/replicas.h"
#include "zero/plan/schedule.h"
#include "zero/transport/world.h"

namespace zero {

using AdamW = AdamWOptions;
using Adam = AdamOptions;
using Sgd = SgdOptions;
using Lion = LionOptions;

// Fills `values` with those of a parameter, row by row, in fp32.
using WeightSource = std::function<void(const std::string& name, std::span<float> values)>;

struct AttachOptions {
  int stage = 3;
  OptimizerOptions optimizer = AdamW{};
  double clip = 0;
  Reduce reduce = Reduce::kAuto;  // of micro-batches: each is reduced, at every stage; kLast: summed here, reduced once
  int accumulate = 1;
  bool delayed_update = false;  // after exact_steps, gradients are applied a step late: see EngineOptions
  std::int64_t exact_steps = 40;
  bool average_micro_batches = false;  // a step's gradient is their mean, not their sum; grad_norm and clip, too
  // Of parameters and gradients; master and moments are fp32. Absent: the module's own. Parameters and statistics of a
  // module with running statistics (BatchNorm; a buffer "running_mean") are fp32 then: it takes and returns bf16 all
  // the same. Other buffers keep their type, and inputs are the caller's.
  std::optional<DType> dtype;
  TierMemory device_memory;
  OffloadOptions offload;              // what leaves the device, and where to
  std::vector<ParameterGroup> groups;  // empty: weight decay on tensors of two or more dimensions
  std::vector<std::string> units;      // module names that become a unit each; empty: one a repeated block
  int threads = 1;
  int max_skipped_steps = 10;
  Timeline* timeline = nullptr;  // gets what the engine does while it records; outlives the attachment
  WeightSource weights;          // first values, instead of the module's: called on rank 0, within attach()
  bool awaits_load = false;      // no first values: load() brings them, and before it nothing else is possible
};

class AttachedModule;  // zero/torch/attached_module.h

// The engine of one module. Move-only. Destruction is Collective and gives every parameter back in full;
// while an exception unwinds it is Local and leaves them empty.
class Attachment {
 public:
  Attachment(Attachment&&) noexcept;
  Attachment& operator=(Attachment&&) noexcept;
  ~Attachment();

  // Collective. Reduces what is left, agrees on the norm, clips, updates, clears. `lr` replaces the optimizer's for
  // this step. Throws CommError; ConfigError when a parameter lost its key (Module::to, set_data) since attach, or its
  // .grad() was read or holds something, with its name; Error after max_skipped_steps steps in a row that were skipped:
  // for a gradient that is not finite, or beyond `limits`.
  StepReport step();
  StepReport step(double lr, const StepLimits& limits = {});

  // A scope for every micro-batch but the last of a step.
  class [[nodiscard]] AccumulateScope {
   public:
    explicit AccumulateScope(AttachedModule& module);
    ~AccumulateScope() noexcept(false);
    AccumulateScope(const AccumulateScope&) = delete;
    AccumulateScope& operator=(const AccumulateScope&) = delete;

   private:
    AttachedModule& module_;
  };
  AccumulateScope accumulate();

  // Collective, both ends. A scope in which the parameters of `module` (this one, or one inside it) can be read and
  // written by anybody, raw pointers included. What is written is kept; every rank must write the same, unless
  // `source_rank` says whose counts.
  class [[nodiscard]] GatheredScope {
   public:
    GatheredScope(AttachedModule& attached, const torch::nn::Module& module, int source_rank);
    ~GatheredScope() noexcept(false);
    GatheredScope(const GatheredScope&) = delete;
    GatheredScope& operator=(const GatheredScope&) = delete;

   private:
    AttachedModule& attached_;
    std::vector<int> units_;
    int source_rank_;
  };
  GatheredScope gathered(const torch::nn::Module& module, int source_rank = -1);

  // Collective. Calls visit(name, tensor) for every parameter in name order, unit by unit, on every rank: how weights
  // are saved and hashed without holding them all. `tensor` is CPU, full, in the parameter's dtype; fp32 from the
  // master if `full_precision`.
  void for_each_parameter(const std::function<void(const std::string& name, const torch::Tensor& tensor)>& visit,
                          bool full_precision = false);

  // Collective. One safetensors file at `path` with the whole weights and rank 0's buffers, which other programs load;
  // rank 0 writes it. Each tensor under its name in the module (a tied one under its first), in the type it is held in;
  // parameters in fp32, from the master, if `full_precision`. One unit is whole at a time. Throws IoError on every rank
  // where rank 0 cannot write; the engine goes on.
  void export_weights(const std::filesystem::path& path, bool full_precision = false);

  // Collective. Applies the gradient that a delayed update still holds back, as for_each_parameter() and destruction
  // do: what is evaluated afterwards is what is saved. Steps after it are others than without it; within a step, or in
  // a gathered() scope, it is refused (ConfigError).
  void finish_updates();

  // Collective; between steps. Whether the ranks still hold the same parameters (at stage 0 optimizer states, too); at
  // stage 3 there is nothing to compare. Module buffers are each rank's own.
  ReplicaCheck compare_replicas();

  // Collective; between steps. A checkpoint at `path`: states, module buffers and this rank's random generator. save()
  // returns when it is durable; begin_save() as CheckpointSave tells, which goes before this. load() takes what any
  // world, stage, placement and dtype saved: buffers of the rank of the same number (a rank too many takes those of
  // rank % ranks then), the generator where the number of ranks is the same. Throws what CheckpointSave and
  // load_checkpoint() do; ConfigError too where a buffer is missing.
  void save(const std::filesystem::path& path);
  std::unique_ptr<CheckpointSave> begin_save(const std::filesystem::path& path, SaveContents contents,
                                             SaveMode mode = SaveMode::kAsync);
  // Whether an asynchronous save of `bytes` a rank would find memory to copy them into, as things are now.
  bool has_room_to_copy(std::int64_t bytes);
  LoadedCheckpoint load(const std::filesystem::path& path, const FileCalls& calls = FileCalls::kernel());
  // Collective; between steps. The same in memory that the launcher holds: see InMemoryCheckpoints::save().
  [[nodiscard]] bool keep(InMemoryCheckpoints& kept, std::int64_t step, SaveContents contents);

  // Local. Ends the attachment without giving parameters back: they stay empty. For a run that is over and whose model
  // is larger than one rank's memory.
  void abandon();

  // Local.
  EngineReport report() const;
  // Between device and host, for what else crosses it (ActivationStore::share_link); null where none stands.
  const Link* link() const;
  PhaseSeconds take_phase_seconds();  // since the last call
  const std::vector<Unit>& units() const;
  const std::vector<ParamSpec>& parameters() const;
  const Schedule& schedule() const;  // the one in force; without entries before the first step is done

 private:
  friend Attachment attach(torch::nn::Module&, World&, AttachOptions);
  explicit Attachment(std::unique_ptr<AttachedModule> impl);
  std::unique_ptr<AttachedModule> impl_;
};

// Collective. `module` must not be attached already and must outlive the result; so must `world`.
// Throws ConfigError before anything is allocated: unknown stage, a budget that is too small (with the smallest that is
// not), parameters of a dtype other than fp32 or bf16, a module attached already, `weights` with `awaits_load`. What
// `weights` throws ends it on every rank, and the module is as it was.
Attachment attach(torch::nn::Module& module, World& world, AttachOptions options = {});

}  // namespace zero
