// attach(): ZeRO for any torch::nn::Module, unmodified. docs/api.md has a complete example for each task.
//
//   auto engine = zero::attach(*model, world, {.stage = 3, .optimizer = zero::AdamW{.lr = 3e-4}, .clip = 1.0});
//   for (auto& [x, y] : batches) {
//     auto loss = cross_entropy(model->forward(x), y);
//     loss.backward();                  // if parameters are fp16: engine.scaled(loss).backward()
//     engine.step();                    // reduces the remaining gradients, clips, updates, clears
//   }
//
// From attach() on, a parameter's storage is empty until an operator uses it. Its name, shape, identity and autograd
// history stay. Gradients never appear in .grad(): the engine takes each as soon as autograd has computed it, and
// gradient() reads it.
//
// These do not work on an attached module:
//   - clip_grad_norm_(), the step() of another optimizer, and other code that reads .grad(): it finds no gradient. If
//     the parameter had a gradient in the step, the next step() throws a ConfigError with its name. If no step()
//     follows, the program prints a warning. Use the option `clip` and the engine's step(). Reads within a backward
//     pass are allowed. Reads of a parameter that is a view of another tensor are not detected.
//   - reading memory without an operator: torch::save(), OutputArchive, pickle_save(), data_ptr(), accessor(), the data
//     of storage(), DLPack. At every stage a c10::Error names the parameter. Write files with export_weights(). Kernels
//     of your own read a pointer in a use() scope. Only a gathered() scope allows writes through a pointer.
//   - operators on some ranks only (`if (rank == 0) std::cout << weight`). clone(), to(), item(), Module::clone() and
//     printing give the whole value. But if parameters are sharded, any operator on a parameter is Collective: the rank
//     waits for the others until the world's timeout (CommError).
//   - Module::to(), set_data(), torch::load() into the module, and replacing a parameter by another tensor: the next
//     step() throws a ConfigError. load() reads checkpoints, `weights` reads other files.
//   - writing different values into a parameter on each rank: ConfigError with its name at the next step(), save() or
//     export (docs/decisions/0077). An embedding with max_norm is Collective at every stage.
//   - a view of a parameter made before attach(): it keeps the old values. A warning names the parameter.
//   - requires_grad_() after attach(): a parameter that was frozen at attach() is not trained. If its .grad() has a
//     gradient, step() throws a ConfigError.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
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

// The engine of one model. Move-only.
//
// Destruction is Collective, and gives every parameter its whole value. If copies of the model train apart (the option
// `local`), that is the value after the newest outer step. While an exception unwinds, destruction is Local and leaves
// the parameters empty. Every function throws ConfigError after detach().
//
// In a process that was forked since attach(), each function and each operator on a parameter throws ConfigError.
// Destruction does nothing there. Shapes and views of parameters stay.
class Engine {
 public:
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  // Local. Returns `loss` times the loss scale, in fp32 at least. Call backward() on the result, for every loss of a
  // step.
  //
  // Small gradients vanish in fp16 (`dtype = zero::DType::kFloat16`). So each loss is multiplied by a scale before
  // backward(), and step() divides the gradients by it. This replaces torch.amp.GradScaler; there is no unscale_() or
  // update(). All micro-batches of a step have the same scale. By default the scale of an fp16 model is dynamic. It
  // begins at 65536. If a gradient overflows, it is halved, and the step is skipped. After 2,000 updates in a row it is
  // doubled. The option `loss_scale` sets a fixed scale, or other numbers, for a model in any type. In other types and
  // without `loss_scale`, scaled() returns the loss unchanged.
  torch::Tensor scaled(const torch::Tensor& loss);

  // Local. Assigns the operators and gradients from here on to the step's micro-batch `number`, from 0 to `accumulate`
  // - 1. Throws ConfigError for a number beyond `accumulate`.
  //
  // With `accumulate = 4` a step is four forward and backward passes, and then step(). Their gradients are summed, as
  // backward() sums them: divide each loss by their number, or set `average_micro_batches` (DeepSpeed's way).
  // torch::autograd::grad() with create_graph counts as a part of the forward pass.
  //
  // Without a call in a step, a forward pass after a backward pass begins the next micro-batch. Backward passes without
  // a forward pass between them are one micro-batch. If passes run in the order of a pipeline, call it before each
  // pass: forward 0, forward 1, backward 0, forward 2, backward 1 ... A backward pass then ends when that of another
  // micro-batch begins.
  void begin_micro_batch(int number);

  // Collective. Reduces the gradients that are not reduced yet, agrees on the norm, clips, updates, clears. `lr`
  // replaces the optimizer's learning rate for this step and must be the same on every rank. A parameter without a
  // gradient is not updated, as in libtorch. `rates` may also have a rate and a weight decay for each of
  // options.groups; a worker of a run with servers throws ConfigError for them.
  //
  // Throws CommError. Throws ConfigError
  //   - with a parameter's name, if the parameter was replaced since attach() (Module::to, set_data), or its .grad()
  //     was read or holds a gradient
  //   - if `accumulate` is two or more and the step had another number of micro-batches (limits.fewer_micro_batches
  //     allows fewer)
  //   - if a loss was not scaled, or all gradients were dropped, or a rate is not a valid learning rate.
  // Throws Error after max_skipped_steps skipped steps in a row: a gradient was not finite, or the loss or the norm
  // exceeded `limits`. Steps that a dynamic loss scale skips do not count.
  StepReport step();
  StepReport step(double lr, const StepLimits& limits = {});
  StepReport step(const StepRates& rates, const StepLimits& limits = {});

  // Collective. Drops the gradients and micro-batches of the running step on every rank, also reduced gradients. No-op
  // before the step's first backward pass. With zero.delayed_update, the waiting update is applied first.
  //
  // zero_grad() of the module, of a module inside it, or of an optimizer of torch::optim drops only gradients of its
  // parameters, in the running step. If no other parameter has a gradient then, the step begins anew, with no
  // micro-batch. Call zero_grad() on every rank, or the next pass throws a ConfigError. Using a parameter's
  // .mutable_grad() outside of a backward pass also counts as zero_grad() of that parameter.
  void discard_gradients();

  // Collective over the servers of a run with servers (the option `sync`). Servers call it instead of training. It
  // returns when every worker has called detach() or destroyed its engine. Updates use the learning rates that workers
  // give to step().
  void serve();

  // Collective; between steps. With the option `local`: makes the outer step now, so all copies hold the same weights.
  // A run calls it at its end. No-op for fragments directly after their outer step. A fragment whose sums are in
  // transfer takes their result instead of another outer step: its steps since then are left out. Throws ConfigError
  // without `local`, and within averaged().
  void merge_copies();

  // Collective; between steps. offload_states() moves states from memory to the disk of the options, so other code can
  // use the memory. reload_states() moves them back; no-op if nothing is offloaded. Both return the bytes that this
  // rank moved. Bits stay the same, also of steps in between, which read and write states on the disk. Whole
  // parameters and gradients (stages 0 to 2) stay in memory. With zero.delayed_update, the waiting update is applied
  // first.
  //
  // offload_states() throws ConfigError if states cannot move: without a disk (`offload.disk`) or room on it, with
  // fractions or `offload.automatic = false`, with weighted shards, on a GPU, and if ranks name different states. Both
  // throw ConfigError between a backward pass and its step() and in scopes, IoError if the disk fails.
  std::int64_t offload_states(const MovedStates& which = {});
  std::int64_t reload_states();

  // Begin scopes, see zero/torch/attached_scopes.h. `module`: the attached module, or a module inside it. `tensors`:
  // parameters.
  GatheredScope gathered(const torch::nn::Module& module, int source_rank = -1);
  GatheredScope gathered(const std::vector<torch::Tensor>& tensors, int source_rank = -1);
  UsingScope use(const std::vector<torch::Tensor>& parameters);
  FrozenScope frozen();
  AveragedScope averaged();

  // Collective; only between the last backward pass of a step and its step(), otherwise ConfigError.
  //
  // gradient() returns the whole gradient before clipping: the average over ranks, and over micro-batches with
  // `average_micro_batches`. It is zero if no rank has a gradient. grad_norms() returns the norm of each parameter's
  // gradient; their squares sum to the square of the grad_norm that step() returns. Both functions hold one whole unit
  // at a time in fp32, in addition to the budget, as full_state() does.
  torch::Tensor gradient(const std::string& parameter);
  std::map<std::string, double> grad_norms();

  // Collective; between steps. Returns a state of a parameter in fp32. `state` is "parameter" or a moment by its name
  // in torch.optim, such as "exp_avg". If the parameter is held in 16 bits, "parameter" is read from the master.
  //
  // full_state() returns the whole state on every rank. state_shard() returns the elements that this rank owns. It
  // throws ConfigError if these elements are several ranges (StateShard).
  torch::Tensor full_state(const std::string& parameter, const std::string& state = "parameter");
  StateShard state_shard(const std::string& parameter, const std::string& state = "parameter");
  std::vector<std::string> state_names() const;  // Local
  // Local. Returns the states of this parameter. A frozen parameter has no moments. With Muon, matrices have other
  // states than other parameters. With Adafactor, each rank holds the whole "row_var" and "col_var" of a matrix: read
  // them with full_state(), because state_shard() throws ConfigError for them.
  std::vector<std::string> state_names(const std::string& parameter) const;

  // Collective. Calls visit(name, tensor) for every parameter in name order, unit by unit, on every rank. So weights
  // can be saved or hashed without holding all of them. `tensor` is whole, on the CPU, in the parameter's dtype; with
  // `full_precision`, in fp32 from the master.
  void for_each_parameter(const std::function<void(const std::string& name, const torch::Tensor& tensor)>& visit,
                          bool full_precision = false);

  // Collective. Writes one safetensors file with the whole weights and rank 0's buffers, which other programs can load.
  // Rank 0 writes it. Each tensor has its name in the module (a tied tensor: its first name) and the type in which it
  // is held. With `full_precision`, parameters are in fp32, from the master. If copies train apart, the file has the
  // weights that they share, as in an averaged() scope. One unit is whole at a time. If rank 0 cannot write, every rank
  // throws IoError, and the engine stays usable. `left_out`: first names of buffers that the file does not have.
  void export_weights(const std::filesystem::path& path, bool full_precision = false,
                      const std::set<std::string>& left_out = {});

  // Collective; between steps. save() writes a checkpoint: states, module buffers and this rank's random generator. It
  // returns when the checkpoint is durable. If it throws IoError, the older checkpoint at `path` is unchanged.
  //
  // load() reads checkpoints of any world, stage, placement and dtype. A rank takes the buffers of the rank with its
  // number; if fewer ranks saved, of rank % ranks. It takes the generator if as many ranks saved. It throws ConfigError
  // for a checkpoint of another model or optimizer, or without a buffer, and IoError for a damaged checkpoint.
  void save(const std::filesystem::path& path);
  LoadedCheckpoint load(const std::filesystem::path& path);

  // Collective. Gives all parameters back, as destruction does, but throws if that fails (IoError, CommError);
  // destruction then leaves the other parameters empty. Afterwards the module is an ordinary module and can be attached
  // again.
  void detach();
  // Local. Ends the attachment without giving parameters back: they stay empty. Call it when a run is over
  // and its model is larger than one rank's memory.
  void abandon();

  // Local.
  EngineReport report() const;
  const std::vector<ParamSpec>& parameters() const;
  EngineControl control() const;  // for training loops: zero/torch/engine_control.h

  explicit Engine(std::unique_ptr<AttachedModule> attached);  // attach() calls it

 private:
  friend class EngineSet;
  AttachedModule& attached() const;
  struct End {
    void operator()(AttachedModule* attached) const;
  };
  std::unique_ptr<AttachedModule, End> attached_;
};

// Collective. Attaches `module`, which must not be attached already. `module` and `world` must outlive the result. Rank
// 0's parameters and buffers are broadcast first. A module made by zero::deferred() is built here, unit by unit.
//
// Give the options `weights` and `awaits_load` on every rank, or on none. `weights` is a function that returns first
// values. attach() calls it on rank 0 once for each parameter, unit by unit, and ignores the module's own values. With
// `awaits_load`, no parameter has a value before load().
//
// Throws ConfigError before anything is allocated:
//   - a model without parameters, or an unknown stage
//   - a budget that is too small (the message has the smallest possible budget)
//   - a parameter whose dtype is not fp32, bf16 or fp16, unless it is frozen and of whole numbers or booleans: such a
//     parameter counts as a buffer
//   - a module that is attached already
//   - `weights` with `awaits_load`.
// If `weights` throws, attach() throws on every rank, and the module is unchanged.
Engine attach(torch::nn::Module& module, World& world, AttachOptions options = {});
// The same for a model that is not a torch::nn::Module: attach() needs only its tensors by name.
Engine attach(ModelTensors model, World& world, AttachOptions options = {});

}  // namespace zero
