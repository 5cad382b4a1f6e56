// lion_update(): Lion's inner loop (Chen et al., "Symbolic Discovery of Optimization Algorithms", arXiv:2302.06675).
//
// For each element, in fp32:
//
//   g  = gradient * gradient_scale
//   c  = beta1 * m + (1 - beta1) * g
//   p  = p * decay                                 decay = 1 - lr * weight_decay
//   p  = p + (-lr) * sign(c)                       sign(0) is 0; a NaN stays NaN
//   m  = beta2 * m + (1 - beta2) * g
//
// Every operation is rounded by itself, so all instruction sets and cuts give the same bits. One state: half of Adam's
// memory. Local.
#pragma once

#include "zero/optim/elementwise/lion_rule.h"
#include "zero/optim/rule/update_slices.h"

namespace zero {

// The same for every element.
struct LionConstants {
  float gradient_scale = 1;
  float decay = 1;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float minus_lr = 0;
};

LionConstants lion_constants(const LionOptions& options, const UpdateScalars& scalars);

// Updates the span's parameter and state in place, and writes low_precision if it is not null.
void lion_update(const UpdateSpan& span, const LionConstants& constants);

// Runs lion_update() for each slice.
using LionArguments = UpdateSlices<LionConstants>;
extern const Kernel kLion;

}  // namespace zero
