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
// unit by unit. With the option `weights` the module's own values are neither built nor kept: attach() asks `weights`
// once for each parameter, a unit at a time. With `awaits_load` no parameter has a value before load(). Give these two
// options on every rank, or on none.
//
// Micro-batches: with `accumulate = 4` a step is four forward and backward passes, and then step(). Their gradients are
// summed, as backward() sums them: divide each loss by their number, or set `average_micro_batches` (DeepSpeed's way).
// Backward passes without a forward pass between them are one micro-batch. torch::autograd::grad() with create_graph
// counts as a part of the forward pass.
//
// fp16: `dtype = zero::DType::kFloat16`. Small gradients vanish in fp16, so scaled() multiplies each loss by a scale
// before backward(), and step() divides the gradients by it again. It does the work of torch.amp.GradScaler, without
// unscale_() and update(). All micro-batches of a step have the same scale. The scale is dynamic (65536 at first;
// halved, and the step skipped, if a gradient overflows; doubled after 2,000 updates) unless `loss_scale` says
// otherwise. With `loss_scale` losses of another type have a scale, too; without a scale scaled() returns the loss as
// it is.
//
// Gradients never appear in .grad(): each goes to the engine as soon as autograd has made it; gradient() reads it.
// zero_grad(), of the module, of one inside it, or of an optimizer of torch::optim, drops the gradients that its parameters
// have in the running step. If no other parameter has a gradient then, the step begins anew, with no micro-batch;
// discard_gradients() says so for all. A parameter without a gradient is not updated, as after zero_grad() in libtorch. Call
// it on every rank, or the next pass throws a ConfigError. The use of .mutable_grad() outside of a backward pass is
// zero_grad() of its parameter. A step() after all gradients were dropped throws a ConfigError.
//
// These do not work on an attached module:
//   - clip_grad_norm_(), the step() of another optimizer, and other code that reads .grad(): it would find no gradient.
//     The next step() throws a ConfigError with the parameter's name, if gradients waited at that time; a program that never calls
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
//   - writing other values on each rank into a parameter: ConfigError with its name at the next step(), save() or export
//     (docs/decisions/0077). An embedding with max_norm is Collective at every stage.
//   - a view of a parameter made before attach(): it keeps the old values. A warning names the parameter.
//   - requires_grad_() after attach(): a parameter that was frozen at attach() is not trained. A gradient in its .grad()
//     is a ConfigError.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "zero/checkpoint/read/loaded_checkpoint.h"
#include "zero/comm/transport/world.h"
#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"
#include "zero/torch/attached_scopes.h"
#include "zero/torch/module/model_tensors.h"
#include "zero/torch/module/module_names.h"
#include "zero/torch/module/state_shard.h"

namespace zero {

class EngineControl;

using AttachOptions = EngineOptions;

// The engine of one model. Move-only. Destruction is Collective and gives every parameter back in full (copies that train
// apart: the weights that they share). While an exception unwinds, destruction is Local and leaves the parameters empty.
// Every function throws ConfigError after detach().
class Attachment {
 public:
  Attachment(Attachment&&) noexcept;
  Attachment& operator=(Attachment&&) noexcept;
  ~Attachment();

  // Local. `loss` times the loss scale, in fp32 at least: call backward() on the result, for every loss of a step.
  torch::Tensor scaled(const torch::Tensor& loss);

  // Local. Operators and gradients from here on are of the step's micro-batch `number`, from 0, of `accumulate`. For passes
  // in the order of a pipeline: call it before each, forward 0, forward 1, backward 0, forward 2, backward 1 ... A backward
  // pass then ends where that of another micro-batch begins. Without a call in a step, a forward pass after a backward pass
  // begins the next micro-batch. Throws ConfigError for a number beyond `accumulate`.
  void begin_micro_batch(int number);

  // Collective. Reduces the gradients that are not reduced yet, agrees on the norm, clips, updates, clears. `lr` replaces
  // the optimizer's for this step, the same on every rank. Throws CommError. Throws ConfigError with a parameter's name if the
  // parameter was replaced since attach() (Module::to, set_data), or its .grad() was read or holds a gradient; also if the
  // number of micro-batches was not an `accumulate` of two or more (fewer are allowed with limits.fewer_micro_batches), a
  // loss was not scaled, or `lr` is none. Throws Error after max_skipped_steps skipped steps in a row: a gradient was not finite, or loss or norm exceeded `limits`. Steps that a dynamic loss scale skips don't count.
  StepReport step();
  StepReport step(double lr, const StepLimits& limits = {});

  // Collective. Drops the gradients and micro-batches that the running step has so far, on every rank, also those that are
  // reduced already; no-op before its first backward pass. module.zero_grad() does the same, see above. With
  // zero.delayed_update the update that waits is applied first.
  void discard_gradients();

  // Collective over the servers of a run that has them (the option `sync`), which call it instead of training: returns when
  // all workers have left, which each does when its attachment ends. Updates take the learning rate of the workers' step().
  void serve();

  // Collective; between steps. With the option `local`: the outer step now, so that all copies hold the same weights, as a
  // run does when it ends; no-op directly after one. Throws ConfigError without `local`, and within averaged().
  void merge_copies();

  // Scopes, see zero/torch/attached_scopes.h. `module`: the attached one, or one inside it; `tensors`: parameters.
  GatheredScope gathered(const torch::nn::Module& module, int source_rank = -1);
  GatheredScope gathered(const std::vector<torch::Tensor>& tensors, int source_rank = -1);
  FrozenScope frozen();
  AveragedScope averaged();

  // Collective; between the last backward pass of a step and its step() alone (ConfigError). The whole gradient: the
  // average over ranks (and over micro-batches with `average_micro_batches`), before clipping; zeros where no rank has
  // one. grad_norms() has the norm of each parameter's gradient; their squares add up to the square of step()'s
  // grad_norm. One unit at a time is whole in fp32, beyond the budget, as in full_state().
  torch::Tensor gradient(const std::string& parameter);
  std::map<std::string, double> grad_norms();

  // Collective; between steps. A state of a parameter in fp32: "parameter" (from the master, where it is held in 16
  // bits) or a moment, as torch.optim calls it: "exp_avg". Whole, on every rank; or the elements that this rank owns
  // (ConfigError where those are several ranges: StateShard).
  torch::Tensor full_state(const std::string& parameter, const std::string& state = "parameter");
  StateShard state_shard(const std::string& parameter, const std::string& state = "parameter");
  std::vector<std::string> state_names() const;  // Local
  // Local. The states of this parameter: a frozen one has no moments; with Muon a matrix has other states than the rest, and
  // with Adafactor "row_var" and "col_var", of which each rank holds all: state_shard() does not know them.
  std::vector<std::string> state_names(const std::string& parameter) const;

  // Collective. Calls visit(name, tensor) for every parameter in name order, unit by unit, on every rank: how weights
  // are saved and hashed without holding them all. `tensor` is CPU, full, in the parameter's dtype; fp32 from the
  // master if `full_precision`.
  void for_each_parameter(const std::function<void(const std::string& name, const torch::Tensor& tensor)>& visit,
                          bool full_precision = false);

  // Collective. One safetensors file at `path` with the whole weights and rank 0's buffers, which other programs load;
  // rank 0 writes it. Each tensor under its name in the module (a tied one under its first), in the type it is held in;
  // parameters in fp32, from the master, if `full_precision`. Copies that train apart: the weights that they share, as in
  // an averaged() scope. One unit is whole at a time. If rank 0 cannot write, every rank throws IoError, and the engine
  // goes on.
  void export_weights(const std::filesystem::path& path, bool full_precision = false);

  // Collective; between steps. A checkpoint at `path`: states, module buffers and this rank's random generator. save()
  // returns when it is durable. load() takes checkpoints of any world, stage, placement and dtype. A rank takes the
  // buffers of the rank with its number (of rank % ranks, if fewer ranks saved), and the generator if as many ranks
  // saved. save() throws IoError, and leaves what was at `path`. load() throws ConfigError for a checkpoint of another
  // model or optimizer, or without a buffer, and IoError for a damaged one.
  void save(const std::filesystem::path& path);
  LoadedCheckpoint load(const std::filesystem::path& path);

  // Collective. Gives all parameters back, as destruction does, but throws if that fails (IoError, CommError;
  // destruction then leaves the other parameters empty). The module is an ordinary one again, and can be attached anew.
  void detach();
  // Local. Ends the attachment without giving parameters back: they stay empty. For a run that is over and whose model
  // is larger than one rank's memory.
  void abandon();

  // Local.
  EngineReport report() const;
  const std::vector<ParamSpec>& parameters() const;
  EngineControl control() const;  // for runners: zero/torch/engine_control.h

  explicit Attachment(std::unique_ptr<AttachedModule> attached);  // attach() calls it

 private:
  friend class EngineSet;
  AttachedModule& attached() const;
  std::unique_ptr<AttachedModule> attached_;
};

// Collective. `module` must not be attached already and must outlive the result; so must `world`.
// Throws ConfigError before anything is allocated: a model without parameters, unknown stage, a budget that is too small (with the smallest that is
// not), parameters of a dtype other than fp32, bf16 or fp16, a module attached already, `weights` with `awaits_load`.
// If `weights` throws, attach() throws on every rank, and the module is as it was.
Attachment attach(torch::nn::Module& module, World& world, AttachOptions options = {});
// The same for a model that is no torch::nn::Module: attach() needs only its tensors by name.
Attachment attach(ModelTensors model, World& world, AttachOptions options = {});

}  // namespace zero
