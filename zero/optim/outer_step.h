// OuterStep: the merge of copies that train apart: DiLoCo (Douillard et al., arXiv 2311.08105). Copies of a
// model train apart for some steps. Then, with the mean over the copies in the order of their numbers,
//
//   D        = mean over copies of (anchor - weights)
//   momentum = mu * momentum + D
//   anchor   = anchor - lr * (D + mu * momentum)         (Nesterov's form; with lr = 1 and mu = 0 the mean of the weights)
//   weights  = anchor, in every copy
//
// in fp32, each operation rounded on its own; the same bits however spans are cut. The anchor begins as the first weights.
// Momentum and anchor are states of the rule that updates the weights: so they are split, placed, saved and counted as
// the others are.
//
// Where a copy sends only the largest elements C(x) of its difference (WireCodecs::outer_topk), what it did not send is a
// third such state, its residual (error feedback: Stich et al., arXiv 1809.07599):
//
//   x        = (anchor - weights) + residual
//   residual = x - C(x)
//   D        = mean over copies of C(x)
//
// In fragments, each has its outer step at another time, and with an overlap its result comes some steps after the differences
// were taken, while the copies go on (Streaming DiLoCo: Douillard et al., arXiv 2501.18512): the anchor and the momentum are
// those of above, and then
//
//   weights  = mix * weights + (1 - mix) * anchor, in every copy
//
//   auto rule = with_outer_states(make_update_rule(AdamWOptions{}), {.steps = 50});
//   rule->states()                                  // "exp_avg", "exp_avg_sq", "outer_momentum", "anchor"
//   const OuterStep outer(*rule, {.steps = 50}, /*copies=*/2);
//   outer.subtract(span);                           // anchor - weights, where the span has its outer momentum
//   outer.update(span);                             // the sum of that over the copies is the span's gradient
//
// Nothing here knows of ranks: who calls brings the sum. Local.
#pragma once

#include <memory>

#include "zero/device/kernel.h"
#include "zero/optim/update_rule.h"

namespace zero {

struct LocalSteps {
  int steps = 50;               // from one outer step to the next; skipped ones count
  double outer_lr = 0.7;        // 1 with momentum 0: the mean of the copies
  double outer_momentum = 0.9;  // Nesterov's
  int fragments = 1;            // parts of the model, each with an outer step of its own every `steps` steps
  int overlap = 0;              // steps that the copies take while a fragment's differences are on their way
  double mix = 0.5;             // with an overlap: the share of a copy's own weights in what it goes on with
  bool operator==(const LocalSteps&) const = default;
};

constexpr std::string_view kOuterResidualState = "outer_residual", kOuterMomentumState = "outer_momentum",
                           kAnchorState = "anchor";

// The rule with the states of the outer step behind its own: a residual where one is kept, momentum, anchor. Its updates leave
// them alone. Throws ConfigError under "sync.local_steps" for fewer than one, "sync.outer_lr" for one that is not finite or
// not above 0, "sync.outer_momentum" or "sync.mix" for one that is not from 0 to below 1, "sync.fragments" for fewer than one
// or more than steps, "sync.overlap" for one below 0 or above the steps between two fragments, and "sync.mode" for a rule that
// has no room for more states.
std::unique_ptr<UpdateRule> with_outer_states(std::unique_ptr<UpdateRule> rule, const LocalSteps& local,
                                              bool keeps_residual = false);

// What a kernel of the outer step reads and writes.
struct OuterArguments {
  float* parameter = nullptr;  // null: kOuterMove leaves it alone
  float* momentum = nullptr;   // where kOuterSubtract writes the differences
  float* anchor = nullptr;
  const float* residual = nullptr;  // null: none is kept
  const float* sum = nullptr;       // of the differences, over the copies
  std::byte* low_precision = nullptr;
  DType low_precision_dtype = DType::kBFloat16;
  std::int64_t numel = 0;
  float lr = 0, mu = 0, copies = 1;
};

// Of a rule of with_outer_states(). Immutable: many threads may share one.
class OuterStep {
 public:
  OuterStep(const UpdateRule& rule, const LocalSteps& local, int copies);

  // Where the span's outer momentum should be, the differences are written, with the residual where one is kept. The span
  // needs parameter, that, anchor and residual.
  void subtract(const UpdateSpan& span) const;
  // What was not sent of the differences, the span's gradient in fp32, becomes the residual.
  void keep(const UpdateSpan& span) const;
  // The span needs the sum of the differences as gradient, in fp32, and parameter, momentum, anchor; move() leaves the
  // parameter alone, and needs none.
  void update(const UpdateSpan& span) const;
  void move(const UpdateSpan& span) const;

  // The place of the outer momentum among the rule's states; that of the anchor is the next one.
  std::size_t momentum_place() const { return momentum_; }
  bool keeps_residual() const { return keeps_residual_; }

 private:
  std::size_t residual_place() const { return momentum_ - 1; }
  OuterArguments arguments_of(const UpdateSpan& span) const;

  std::size_t momentum_;
  bool keeps_residual_;
  float lr_, mu_, copies_;
};

// A rule, in place of an update, that makes the weights the anchor.
std::unique_ptr<UpdateRule> make_anchoring(const UpdateRule& rule);
// And one that makes weights mix * weights + (1 - mix) * anchor.
std::unique_ptr<UpdateRule> make_mixing(const UpdateRule& rule, double mix);

// The same as kernels of a device, of OuterArguments; keep() and the anchoring are copies.
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
