// Scopes of an attached model: begun by a function of its Attachment, ended by the destructor.
//
//   { const auto whole = engine.gathered(*model); torch::save(model, "model.pt"); }
//   { const auto averaged = engine.averaged(); evaluate(model); }
//   { const auto frozen = critic_engine.frozen(); (-critic->forward(fake).mean()).backward(); }
//
// Each goes before its Attachment.
#pragma once

#include <vector>

namespace zero {

class AttachedModule;

// Collective, both ends. Parameters are whole, and can be read and written by anybody, raw pointers included. What is
// written is kept; every rank must write the same, unless `source_rank` says whose counts.
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

// Parameters are their moving averages (AttachOptions.ema), for evaluation and export. Collective, both ends. Throws
// ConfigError where none is kept, and between a backward pass and its step().
class [[nodiscard]] AveragedScope {
 public:
  explicit AveragedScope(AttachedModule& attached);
  ~AveragedScope() noexcept(false);
  AveragedScope(const AveragedScope&) = delete;
  AveragedScope& operator=(const AveragedScope&) = delete;

 private:
  AttachedModule& attached_;
};

// Passes go through the model, and are none of its steps: its gradients are dropped, and no micro-batch is counted.
// Inputs get their gradients. Both ends are Local; operators in between are Collective as ever.
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
