// adamw8bit_update(): the inner loop of AdamW with moments in 8 bits (Dettmers et al., "8-bit Optimizers via Block-wise
// Quantization", arXiv:2110.02861). States take 2 bytes per element instead of 8, and 1/32 byte for scales.
//
// Blocks of kCodeBlock elements are counted from the parameter's first. For each block it decodes both moments, and
// updates as AdamW in fp32 (zero/optim/elementwise/adam_kernel.h) with one division less. Then it encodes the new
// moments with the block's new scales (zero/optim/rule/eight_bit_code.h). The parameter's update uses the new moments
// before they are encoded; it is AdamW's step times bias / bias:
//
//   p = p + (-step_size * bias * m) / (sqrt(v) + eps * bias)     bias = sqrt(1 - beta2^step)
//
// A span begins at a block. It may only end within a block at the parameter's end. Local.
#pragma once

#include "zero/optim/elementwise/adam_kernel.h"

namespace zero {

// Returns AdamW's constants with `bias` multiplied into step size and eps, so bias is 1. Computed in double, then
// rounded once.
AdamConstants adamw8bit_constants(const AdamWOptions& options, const UpdateScalars& scalars);

// Updates the span's parameter and coded moments in place, and writes low_precision if it is not null. `constants`:
// from adamw8bit_constants().
void adamw8bit_update(const UpdateSpan& span, const AdamConstants& constants);

// Runs adamw8bit_update() for each slice.
extern const Kernel kAdamW8bit;  // takes AdamArguments

}  // namespace zero
