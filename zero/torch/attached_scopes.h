// Scopes of an attached model: a function of its Attachment begins one, the scope's destructor ends it.
//
//   { const auto whole = engine.gathered(*model); torch::save(model, "model.pt"); }
//   { const auto averaged = engine.averaged(); evaluate(model); }
//   { const auto frozen = critic_engine.frozen(); (-critic->forward(fake).mean()).backward(); }
//
// Destroy each before its Attachment.
#pragma once

#include <vector>

namespace zero {

class AttachedModule;

// Collective, both ends. Parameters are whole, and any code can read and write them, raw pointers included. Written
// values are kept; every rank must write the same, unless `source_rank` names the rank whose values count.
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

// Parameters are their moving averages (AttachOptions.ema), or, of copies that train apart (AttachOptions.local), the
// weights that the copies share since the last outer step; for evaluation and export. Collective, both ends. Throws
// ConfigError where neither is kept, and between a backward pass and its step().
class [[nodiscard]] AveragedScope {
 public:
  explicit AveragedScope(AttachedModule& attached);
  ~AveragedScope() noexcept(false);
  AveragedScope(const AveragedScope&) = delete;
  AveragedScope& operator=(const AveragedScope&) = delete;

 private:
  AttachedModule& attached_;
};

// Passes go through the model without being part of its steps: its gradients are dropped, and no micro-batch is
// counted. Inputs get their gradients. Both ends are Local; operators in between are Collective as always.
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
