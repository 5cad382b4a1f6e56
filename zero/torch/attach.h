// attach(): ZeRO for any torch::nn::Module, unmodified. docs/api.md has a complete example for each task.
//
//   auto engine = zero::attach(*model, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 3e-4}, .clip = 1.0});
//   for (auto& [x, y] : batches) {
//     auto loss = cross_entropy(model->forward(x), y);
//     loss.backward();                  // where parameters are fp16: engine.scaled(loss).backward()
//     engine.step();                    // reduces what is left, clips, updates, clears
//   }
//
// From attach() on, a parameter's storage is empty until an operator uses it; its name, shape, identity and autograd
// history stay. Rank 0's parameters and buffers are broadcast first; a module made by zero::deferred() is built here,
// unit by unit. Where `weights` are given, what the module holds is neither built nor kept: each parameter is asked for
// once, a unit at a time. With `awaits_load` none has a value before load(). Both are given on every rank, or on none.
//
// Micro-batches: with `accumulate = 4` a step is four forward and backward passes, and then step(). Their gradients are
// summed, as backward() sums them: divide each loss by their number, or set `average_micro_batches` (DeepSpeed's way).
// Backward passes without a forward pass between them are one micro-batch; a gradient that torch::autograd::grad()
// takes with create_graph belongs to the forward pass.
//
// fp16: `dtype = zero::DType::kFloat16`. Its small gradients vanish, so that losses get a scale before backward(), which
// scaled() multiplies them with and step() takes out of the gradients again; it is torch.amp.GradScaler, and needs
// neither unscale_() nor update(). All micro-batches of a step have the same scale. The scale is dynamic (65536 at
// first, halved and the step skipped where a gradient overflows, doubled after 2,000 updates) unless `loss_scale` says
// otherwise. A loss of another type may have a scale, too; without one scaled() gives back the loss as it is.
//
// Gradients never appear in .grad(): they go to the engine as they are made; gradient() reads them. What else does not
// work on an attached module:
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
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "zero/checkpoint/load.h"
#include "zero/engine/options.h"
#include "zero/engine/step_report.h"
#include "zero/torch/attached_scopes.h"
#include "zero/torch/engine_control.h"
#include "zero/torch/model_tensors.h"
#include "zero/torch/module_names.h"
#include "zero/torch/state_shard.h"
#include "zero/transport/world.h"

namespace zero {

using AttachOptions = EngineOptions;
using AdamW = AdamWOptions;
using Adam = AdamOptions;
using Sgd = SgdOptions;
using Lion = LionOptions;
using Lamb = LambOptions;
using AdamW8bit = AdamW8bitOptions;
using Muon = MuonOptions;
using OwnRule = OwnRuleOptions;

// The engine of one model. Move-only. Destruction is Collective and gives every parameter back in full; while an
// exception unwinds it is Local and leaves them empty. Every function throws ConfigError after detach().
class Attachment {
 public:
  Attachment(Attachment&&) noexcept;
  Attachment& operator=(Attachment&&) noexcept;
  ~Attachment();

  // Local. What backward() is to be called on, for every loss of a step: `loss` times the loss scale, in fp32 at least.
  torch::Tensor scaled(const torch::Tensor& loss);

  // Collective. Reduces what is left, agrees on the norm, clips, updates, clears. `lr` replaces the optimizer's for
  // this step. Throws CommError; ConfigError when a parameter lost its key (Module::to, set_data) since attach, its
  // .grad() was read or holds something, with its name, there were other than `accumulate` micro-batches, or losses
  // without their scale; Error after max_skipped_steps steps in a row that were skipped: for a gradient that is not
  // finite, or beyond `limits`. Steps that a dynamic loss scale was too high for don't count.
  StepReport step();
  StepReport step(double lr, const StepLimits& limits = {});

  // Scopes: see there. `module`: the attached one, or one inside it; `tensors`: parameters.
  GatheredScope gathered(const torch::nn::Module& module, int source_rank = -1);
  GatheredScope gathered(const std::vector<torch::Tensor>& tensors, int source_rank = -1);
  FrozenScope frozen();
  AveragedScope averaged();

  // Collective; between the last backward pass of a step and its step() alone (ConfigError). The whole gradient: the
  // average over ranks (and over micro-batches with `average_micro_batches`), before clipping; zeros where no rank has
  // one. The norms are by parameter; their squares add up to that of step()'s grad_norm. One unit is whole in fp32 for a
  // moment, beside the budget, as it is for full_state().
  torch::Tensor gradient(const std::string& parameter);
  std::map<std::string, double> grad_norms();

  // Collective; between steps. A state of a parameter in fp32: "parameter" (from the master, where it is held in 16 bits)
  // or a moment, as torch.optim calls it: "exp_avg". Whole, on every rank; or the elements that this rank owns.
  torch::Tensor full_state(const std::string& parameter, const std::string& state = "parameter");
  StateShard state_shard(const std::string& parameter, const std::string& state = "parameter");
  std::vector<std::string> state_names() const;  // Local
  // Local. Those that the parameter has: a frozen one has no moments, and with Muon matrices have others than the rest.
  std::vector<std::string> state_names(const std::string& parameter) const;

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

  // Collective; between steps. A checkpoint at `path`: states, module buffers and this rank's random generator. save()
  // returns when it is durable. load() takes what any world, stage, placement and dtype saved: buffers of the rank of
  // the same number (a rank too many takes those of rank % ranks then), the generator where the number of ranks is the
  // same. Throws what CheckpointSave and load_checkpoint() do; ConfigError too where a buffer is missing.
  void save(const std::filesystem::path& path);
  LoadedCheckpoint load(const std::filesystem::path& path, const FileCalls& calls = FileCalls::kernel());

  // Collective. What destruction does, but it throws what goes wrong (IoError, CommError; destruction then leaves
  // empty what was not given back). The module is an ordinary one again, and can be attached anew.
  void detach();
  // Local. Ends the attachment without giving parameters back: they stay empty. For a run that is over and whose model
  // is larger than one rank's memory.
  void abandon();

  // Local.
  EngineReport report() const;
  const std::vector<ParamSpec>& parameters() const;
  EngineControl control() const;

 private:
  friend Attachment attach(ModelTensors, World&, AttachOptions);
  explicit Attachment(std::unique_ptr<AttachedModule> attached);
  AttachedModule& attached() const;
  std::unique_ptr<AttachedModule> attached_;
};

// Collective. `module` must not be attached already and must outlive the result; so must `world`.
// Throws ConfigError before anything is allocated: unknown stage, a budget that is too small (with the smallest that is
// not), parameters of a dtype other than fp32, bf16 or fp16, a module attached already, `weights` with `awaits_load`. What
// `weights` throws ends it on every rank, and the module is as it was.
Attachment attach(torch::nn::Module& module, World& world, AttachOptions options = {});
// The same of a model that is no torch::nn::Module: all that is asked of one is its tensors by name.
Attachment attach(ModelTensors model, World& world, AttachOptions options = {});

}  // namespace zero
