// attach_pipeline(): ZeRO and a pipeline for any torch::nn::Module, unmodified.
//
//   auto engine = zero::attach_pipeline(*model, world, {.stage = 2, .accumulate = 4}, {.pipeline = 2});
//   std::vector<double> losses = engine.passes([&](int micro) {
//     auto& [x, y] = batches[micro];                    // every rank of a line reads the same batch
//     return cross_entropy(model->forward(x), y) / 4;
//   });
//   engine.step();
//
// A rank calls the function for each micro-batch and each of its sections. Each call runs the model's whole forward
// pass: the rank computes the operators of that section, and walks past all others
// (zero/torch/pipeline/pass/section_pass.h). The first passes() also calls the function before, to learn its operators.
// So the function must run the same operators on the same sizes each time. It may write tensors that it made, and the
// model's buffers, but no other tensors. Losses, gradients and weights have the bits of a run without a pipeline that
// has as many micro-batches. With `pipeline = 1` the engine runs the plain loop, so one program trains with and without
// a pipeline.
//
// Ranks are numbered position by position. With 4 ranks and 2 positions, ranks 0 and 1 have the first sections, and
// ranks 0 and 2 are a line. The ranks of a position divide the states of its sections among them, as attach() divides
// the states of a model among all ranks.
//
// With `schedule = PassOrder::kAuto` rank 0 measures the operators, and neighbours measure their link. All ranks take
// the shortest order of passes (zero/plan/pipeline/plan_passes.h). text() has each order's time.
//
// Buffers that the model writes, such as running statistics, have the bits of a run without a pipeline. After passes()
// and evaluate() every rank of a line has their values.
//
// Not supported yet: GPUs, parameter servers, local steps, delayed updates and codecs. They are refused with the
// option's name (table in docs/guide/pipeline.md). Outside of passes() and evaluate(), operators on parameters of other
// positions throw.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <torch/nn/module.h>

#include "zero/checkpoint/read/loaded_checkpoint.h"
#include "zero/comm/transport/world.h"
#include "zero/engine/options/options.h"
#include "zero/engine/options/step_report.h"
#include "zero/plan/pipeline/pipeline.h"
#include "zero/plan/pipeline/sections.h"
#include "zero/torch/attached_scopes.h"
#include "zero/torch/module/model_tensors.h"

namespace zero {

class PipelinedModule;

// The engines of one model's sections on this rank. Move-only. The destructor is Collective: afterwards every rank has
// all parameters whole. While an exception unwinds the destructor is Local, and parameters stay empty.
class PipelineEngine {
 public:
  using LossOfMicro = std::function<torch::Tensor(int micro)>;

  explicit PipelineEngine(std::unique_ptr<PipelinedModule> module);
  PipelineEngine(PipelineEngine&&) noexcept;
  PipelineEngine& operator=(PipelineEngine&&) noexcept;
  ~PipelineEngine();

  // Collective. Runs all forward and backward passes of one step: `accumulate` micro-batches. Returns the loss of each
  // micro-batch of this rank's line. `loss` returns the loss of a micro-batch, and calls no backward().
  //
  // The first call cuts the model and attaches its sections. Throws ConfigError under
  //   "passes(parts)"               not above 0
  //   "passes"                      with an operator's name: the function cannot be cut (learn_forward()), or it runs
  //                                 other operators than planned
  //   "parallel.sections"           the model has too few parts
  //   "parallel.cut"                the model has no unit of that name, or cannot be cut there
  //   "parallel.schedule"           with kAuto: the model can be cut for no order
  //   "parallel.activation_memory"  with kAuto: the activations of every order are larger
  //
  // `parts`: each loss is divided by it before its backward pass. The returned losses are not divided. With leaves use
  // 1, and give the result to step() as StepLimits::leaf_losses.
  std::vector<double> passes(const LossOfMicro& loss, double parts = 1);
  // Collective. Cuts the model and attaches its sections now; no-op if that is done. Computes no loss.
  void prepare(const LossOfMicro& loss);

  // Collective, after prepare() or the first passes(): unless parameters are whole on each rank, as at stage 0, a
  // section gathers them from all lines. Runs a forward pass without gradients. Returns the function's results on every
  // rank of the line. `key`: calls with equal keys must run the same operators on the same sizes. A key may be the
  // sizes of the inputs.
  std::vector<torch::Tensor> evaluate(const std::vector<std::int64_t>& key,
                                      const std::function<std::vector<torch::Tensor>()>& function);
  // Without a key, each call first learns the operators with one more run of the function. Use it if sizes often
  // change.
  std::vector<torch::Tensor> evaluate(const std::function<std::vector<torch::Tensor>()>& function);

  // Collective. As Engine::step(): one norm over all sections, and all ranks update or all skip.
  StepReport step();
  StepReport step(double lr, const StepLimits& limits = {});
  StepReport step(const StepRates& rates, const StepLimits& limits = {});
  // Collective. As Engine::discard_gradients(): drops all gradients and passes of the running step. zero_grad() of the
  // module does the same. No-op before the first passes().
  void discard_gradients();

  // Collective; between steps. As Engine::averaged(): replaces all parameters by their moving averages.
  AveragedScope averaged();

  // Collective; between steps. Calls visit(name, tensor) for every parameter, on every rank, in the order of names.
  void for_each_parameter(const std::function<void(const std::string& name, const torch::Tensor& tensor)>& visit,
                          bool full_precision = false);
  // Collective; between steps. Visits the parameter with number `first` in the order of names, and returns the number
  // of the next; 0 after the last.
  std::size_t visit_some(std::size_t first,
                         const std::function<void(const std::string& name, const torch::Tensor& tensor)>& visit,
                         bool full_precision = false);
  // Collective; between steps. As Engine::export_weights().
  void export_weights(const std::filesystem::path& path, bool full_precision = false,
                      const std::set<std::string>& left_out = {});

  // Collective; between steps. Save and load a checkpoint of the whole model, which any other run of the model loads.
  void save(const std::filesystem::path& path);
  LoadedCheckpoint load(const std::filesystem::path& path);

  // Collective. Afterwards every rank has all parameters whole, and the object is unusable.
  void detach();
  // Local. Parameters stay empty; the object is unusable afterwards.
  void abandon();

  // Local; empty before the first passes().
  const Sections& sections() const;
  const PipelinePlan& plan() const;
  // Returns lines to print: the orders that kAuto considered, the sections, the crossings with their bytes, and the
  // order of passes.
  std::string text() const;
  // This rank's figures, added over its sections.
  EngineReport report() const;
  PipelinedModule& module() const { return *module_; }  // for runners such as `zero train`

 private:
  std::unique_ptr<PipelinedModule> module_;
};

// Collective. With leaves, the lines divide the leaves of a step among them, as the ranks of a run without a pipeline
// do. Throws ConfigError before anything is allocated, under
//   "attach_pipeline()"  ranks have different options, models or buffers
//   "parallel.pipeline", "parallel.sections", "parallel.schedule", "parallel.depth", "parallel.cut",
//   "parallel.activation_memory", "train.accumulate"
//                        numbers below 0, or numbers that do not fit each other
//   "optimizer.group"    a group with a name has no parameter in any section (require_members())
//   the option's name    an option that no pipeline can have yet (require_pipeline_options())
PipelineEngine attach_pipeline(torch::nn::Module& module, World& world, const AttachOptions& options,
                               const PipelineOptions& pipeline);
PipelineEngine attach_pipeline(ModelTensors model, World& world, const AttachOptions& options,
                               const PipelineOptions& pipeline);

}  // namespace zero
