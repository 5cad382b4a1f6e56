// GatheredScope, UsingScope, AveragedScope, FrozenScope: begun by a function of Engine, ended by their destructors.
//
//   { const auto whole = engine.gathered(*model); torch::save(model, "model.pt"); }
//   { const auto used = engine.use({w}); my_kernel(x.const_data_ptr(), w.const_data_ptr()); }
//   { const auto averaged = engine.averaged(); evaluate(model); }
//   { const auto frozen = critic_engine.frozen(); (-critic->forward(fake).mean()).backward(); }
//
// Destroy each scope before its Engine. If an exception leaves a GatheredScope or an AveragedScope, the scope ends at
// the next Collective call of the Engine or use of its model. Then every rank must have left the scope.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "zero/base/process/fork_mark.h"

namespace zero {

class AttachedModule;
class ParameterUses;

// Holds parameters whole: any code can read and write them, also through raw pointers. Written values are kept. Every
// rank must write the same values, unless `source_rank` names the rank whose values count. Both ends are Collective.
class [[nodiscard]] GatheredScope {
 public:
  GatheredScope(AttachedModule& attached, std::vector<int> units, int source_rank);
  ~GatheredScope() noexcept(false);
  GatheredScope(const GatheredScope&) = delete;
  GatheredScope& operator=(const GatheredScope&) = delete;

 private:
  AttachedModule& attached_;
  std::vector<int> units_;
  int source_rank_;
  int exceptions_at_start_;
};

// Holds the units that an operator with these arguments would hold. So code that is no operator can read their memory:
// kernels of an extension or of Triton, a compiled graph. The scope counts as one operator: its place in the step is
// that of an operator that runs now. Only for reads. The beginning is Collective if the parameters are sharded; the end
// is Local.
class [[nodiscard]] UsingScope {
 public:
  // Uses parameters of any attached models, and views of these parameters. Ignores other tensors.
  explicit UsingScope(const std::vector<at::Tensor>& tensors);
  // Throws ConfigError for a tensor that is no parameter of `attached`, and no view of such a parameter.
  UsingScope(const AttachedModule& attached, const std::vector<at::Tensor>& parameters);
  ~UsingScope();
  UsingScope(const UsingScope&) = delete;
  UsingScope& operator=(const UsingScope&) = delete;

 private:
  std::unique_ptr<ParameterUses> uses_;
  ForkMark made_here_;
};

// Replaces parameters by their moving averages (AttachOptions.ema) for evaluation and export. If copies train apart
// (AttachOptions.local), it replaces them by the weights that the copies share since the last outer step. Both ends are
// Collective. Throws ConfigError if there are neither averages nor shared weights, and between a backward pass and its
// step().
class [[nodiscard]] AveragedScope {
 public:
  // `attached`: one module, or the sections of one model on this rank.
  explicit AveragedScope(std::vector<AttachedModule*> attached);
  // Ends the scope, unless end() was called.
  ~AveragedScope() noexcept(false);
  void end();
  AveragedScope(const AveragedScope&) = delete;
  AveragedScope& operator=(const AveragedScope&) = delete;

 private:
  std::vector<AttachedModule*> attached_;
  int exceptions_at_start_;
};

// Excludes passes through the model from its steps: its gradients are dropped, and no micro-batch is counted. Inputs
// get their gradients. Both ends are Local; operators in between are Collective, as always.
class [[nodiscard]] FrozenScope {
 public:
  explicit FrozenScope(AttachedModule& attached);
  ~FrozenScope();
  FrozenScope(const FrozenScope&) = delete;
  FrozenScope& operator=(const FrozenScope&) = delete;

 private:
  AttachedModule& attached_;
};

}  // namespace zero
