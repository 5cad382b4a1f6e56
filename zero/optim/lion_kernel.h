// lion_update(): Lion's inner loop (Chen et al., "Symbolic Discovery of Optimization Algorithms", arXiv:2302.06675).
//
// For each element, in fp32, every operation rounded on its own, so that the bits are the same on every instruction set
// and however a span is cut:
//
//   g  = gradient * gradient_scale
//   c  = beta1 * m + (1 - beta1) * g
//   p  = p * decay                                 decay = 1 - lr * weight_decay
//   p  = p + (-lr) * sign(c)                       sign(0) is 0; a NaN stays one
//   m  = beta2 * m + (1 - beta2) * g
//
// One state: half of Adam's memory. Local.
#pragma once

#include "zero/optim/lion_rule.h"
#include "zero/optim/update_slices.h"

namespace zero {

// What is the same for every element.
struct LionConstants {
  float gradient_scale = 1;
  float decay = 1;
  float beta1 = 0, one_minus_beta1 = 1;
  float beta2 = 0, one_minus_beta2 = 1;
  float minus_lr = 0;
};

LionConstants lion_constants(const LionOptions& options, const UpdateScalars& scalars);

// Updates span's parameter and state in place, and writes low_precision if it is not null.
void lion_update(const UpdateSpan& span, const LionConstants& constants);

// lion_update() of each slice.
using LionArguments = UpdateSlices<LionConstants>;
extern const Kernel kLion;

}  // namespace zero
