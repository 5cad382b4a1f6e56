// OuterStep: merges copies that train apart by DiLoCo (Douillard et al., arXiv 2311.08105).
//
//   auto rule = with_outer_states(make_update_rule(AdamWOptions{}), {.steps = 50});
//   rule->states()                                  // "exp_avg", "exp_avg_sq", "outer_momentum", "anchor"
//   const OuterStep outer(*rule, {.steps = 50}, /*copies=*/2);
//   outer.subtract(span);                           // writes anchor - weights to the span's outer momentum
//   outer.update(span);                             // the span's gradient is the sum of that over the copies
//
//   D        = mean over copies of (anchor - weights), in the order of the copies
//   momentum = mu * momentum + D
//   anchor   = anchor - lr * (D + mu * momentum)    (Nesterov's form; lr = 1 and mu = 0: the mean of the weights)
//   weights  = anchor, in every copy
//
// fp32, each operation rounded by itself: cuts change no bit. The caller sums over ranks. Local.
#pragma once

#include <memory>

#include "zero/device/kernel.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

// The outer steps of copies that train apart. Each fragment has its outer steps at other times. With an overlap, its
// result arrives some steps after the differences were taken, while the copies continue (Streaming DiLoCo: Douillard et
// al., arXiv 2501.18512). Anchor and momentum are computed as above, and then in every copy
//
//   weights  = mix * weights + (1 - mix) * anchor
struct LocalSteps {
  int steps = 50;               // steps between two outer steps; skipped steps count
  double outer_lr = 0.7;        // 1 with momentum 0: the mean of the copies
  double outer_momentum = 0.9;  // Nesterov momentum
  int fragments = 1;            // parts of the model, each with its own outer step every `steps` steps
  int overlap = 0;              // steps that the copies take while a fragment's differences are exchanged
  double mix = 0.5;             // with an overlap: weight of a copy's own values, new = mix * own + (1 - mix) * anchor
  bool operator==(const LocalSteps&) const = default;
};

constexpr std::string_view kOuterResidualState = "outer_residual", kOuterMomentumState = "outer_momentum",
                           kAnchorState = "anchor";

// Adds the states of the outer step after the rule's own: a residual if `keeps_residual`, momentum, anchor. They are
// split, placed, saved and counted like other states, but the rule's updates ignore them. The anchor starts as the
// first weights.
//
// Throws ConfigError for a value out of range. "sync.local_steps" is 1 or more, "sync.outer_lr" finite and above 0,
// "sync.outer_momentum" and "sync.mix" in [0, 1). "sync.fragments" is from 1 to the steps. "sync.overlap" is from 0 to
// the steps between two fragments. Throws it under "sync.mode" if the rule has no room for more states.
std::unique_ptr<UpdateRule> with_outer_states(std::unique_ptr<UpdateRule> rule, const LocalSteps& local,
                                              bool keeps_residual = false);

// The inputs and outputs of an outer step's kernel.
struct OuterArguments {
  float* parameter = nullptr;  // null: kOuterMove does not write it
  float* momentum = nullptr;   // kOuterSubtract writes the differences here
  float* anchor = nullptr;
  const float* residual = nullptr;  // null: no residual
  const float* sum = nullptr;       // sum of the differences over the copies
  std::byte* low_precision = nullptr;
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t numel = 0;
  float lr = 0, mu = 0, copies = 1;
};

// Runs outer steps for a rule from with_outer_states(). Immutable: threads may share it. If a copy sends only the
// largest elements C(x) of its difference (WireCodecs::outer_topk), the rest stays in its residual (error feedback:
// Stich et al., arXiv 1809.07599):
//
//   x        = (anchor - weights) + residual
//   residual = x - C(x)
//   D        = mean over copies of C(x)
class OuterStep {
 public:
  OuterStep(const UpdateRule& rule, const LocalSteps& local, int copies);

  // Writes the differences, plus the residual if there is one, to the span's outer momentum. The span needs parameter,
  // outer momentum, anchor and residual.
  void subtract(const UpdateSpan& span) const;
  // Stores the part of the differences that was not sent, which is the span's gradient in fp32, as residual.
  void keep(const UpdateSpan& span) const;
  // Update momentum, anchor and parameter. The span's gradient is the sum of the differences in fp32. move() does not
  // write the parameter, and needs none.
  void update(const UpdateSpan& span) const;
  void move(const UpdateSpan& span) const;

  // Returns the index of the outer momentum among the rule's states. The anchor is the next state.
  std::size_t momentum_place() const { return momentum_; }
  bool keeps_residual() const { return keeps_residual_; }

 private:
  std::size_t residual_place() const { return momentum_ - 1; }
  OuterArguments arguments_of(const UpdateSpan& span) const;

  std::size_t momentum_;
  bool keeps_residual_;
  float lr_, mu_, copies_;
};

// Makes a rule whose update copies the weights into the anchor.
std::unique_ptr<UpdateRule> make_anchoring(const UpdateRule& rule);
// Makes a rule whose update sets the weights to mix * weights + (1 - mix) * anchor.
std::unique_ptr<UpdateRule> make_mixing(const UpdateRule& rule, double mix);

// The same as device kernels with OuterArguments. keep() and the anchoring are copies.
extern const Kernel kOuterSubtract;  // OuterStep::subtract()
extern const Kernel kOuterMove;      // OuterStep::update(), or move()
struct MixArguments {
  float* parameter = nullptr;
  const float* anchor = nullptr;
  std::byte* low_precision = nullptr;
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t numel = 0;
  float own = 0, shared = 1;  // mix, and 1 - mix
};
extern const Kernel kMix;

}  // namespace zero
