// adam_update(): the inner loop of Adam (Kingma and Ba, arXiv:1412.6980) and AdamW (Loshchilov and Hutter,
// arXiv:1711.05101). The arithmetic is that of torch.optim. For each element, in fp32:
//
//   g  = gradient * gradient_scale
//   g  = g + coupled_decay * p                     Adam's weight decay, if any
//   p  = p * decay                                 AdamW: 1 - lr * weight_decay; Adam: 1
//   m  = m + w * (g - m)                           w = 1 - beta1; torch's lerp starts from the nearer end (below)
//   v  = v * beta2 + ((1 - beta2) * g) * g
//   p  = p + (-step_size * m) / (sqrt(v) / bias + eps)
//
// Every operation is rounded by itself (no fused multiply-add), so all instruction sets, alignments and cuts give the
// same bits. It reads 16 and writes 12 bytes per element. Memory bounds it, so exact divisions and roots cost nothing.
// Local.
#pragma once

#include "zero/optim/elementwise/adam_rule.h"
#include "zero/optim/rule/update_slices.h"

namespace zero {

// The same for every element: computed in double, then rounded once.
struct AdamConstants {
  float gradient_scale = 1;
  float coupled_decay = 0;
  float decay = 1;
  // lerp(m, g, w) is m + w (g - m) for w < 1/2, else g - (1 - w) (g - m). It is exact at w = 0 and at w = 1.
  float lerp_from_gradient = 0;  // 1 for the second form
  float lerp_factor = 0;         // w, or -(1 - w)
  float beta2 = 0;
  float one_minus_beta2 = 1;
  float bias = 1;  // sqrt(1 - beta2^step)
  float eps = 0;
  float minus_step_size = 0;  // -lr / (1 - beta1^step)
};

AdamConstants adam_constants(const AdamWOptions& options, const UpdateScalars& scalars);
AdamConstants adam_constants(const AdamOptions& options, const UpdateScalars& scalars);

// Updates the span's parameter and both moments in place, and writes low_precision if it is not null.
void adam_update(const UpdateSpan& span, const AdamConstants& constants);

// Runs adam_update() for each slice.
using AdamArguments = UpdateSlices<AdamConstants>;
extern const Kernel kAdam;

}  // namespace zero
