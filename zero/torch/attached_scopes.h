// GatheredScope, AveragedScope, FrozenScope: begun by a function of Attachment, ended by their destructors.
//
//   { const auto whole = engine.gathered(*model); torch::save(model, "model.pt"); }
//   { const auto averaged = engine.averaged(); evaluate(model); }
//   { const auto frozen = critic_engine.frozen(); (-critic->forward(fake).mean()).backward(); }
//
// Destroy each scope before its Attachment.
#pragma once

#include <vector>

namespace zero {

class AttachedModule;

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
};

// Replaces parameters by their moving averages (AttachOptions.ema) for evaluation and export. If copies train apart
// (AttachOptions.local), it replaces them by the weights that the copies share since the last outer step. Both ends are
// Collective. Throws ConfigError if there are neither averages nor shared weights, and between a backward pass and its
// step().
class [[nodiscard]] AveragedScope {
 public:
  explicit AveragedScope(AttachedModule& attached);
  ~AveragedScope() noexcept(false);
  AveragedScope(const AveragedScope&) = delete;
  AveragedScope& operator=(const AveragedScope&) = delete;

 private:
  AttachedModule& attached_;
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
