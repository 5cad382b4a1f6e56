// adamw8bit_update(): the inner loop of AdamW with moments in 8 bits (Dettmers et al., "8-bit Optimizers via Block-wise
// Quantization", arXiv:2110.02861): 2 bytes of states an element instead of 8, and 1/32 of a byte for scales.
//
// For each block of kCodeBlock elements, counted from the parameter's first: both moments are decoded, the update is
// AdamW's in fp32 (zero/optim/adam_kernel.h) with one division less, and the new moments are encoded with the block's new
// scales (zero/optim/eight_bit_code.h). The parameter is updated with the moments as they are before they are encoded:
//
//   p = p + (-step_size * bias * m) / (sqrt(v) + eps * bias)     bias = sqrt(1 - beta2^step): AdamW's step, times bias / bias
//
// A span begins at a block; it may end within one only where its parameter ends. Local.
#pragma once

#include "zero/optim/adam_kernel.h"

namespace zero {

// AdamW's with `bias` moved into step size and eps: 1 here. Computed in double, then rounded once.
AdamConstants adamw8bit_constants(const AdamWOptions& options, const UpdateScalars& scalars);

// `constants`: of adamw8bit_constants(). Updates span's parameter and coded moments in place, and writes low_precision if
// it is not null.
void adamw8bit_update(const UpdateSpan& span, const AdamConstants& constants);

// adamw8bit_update() of each slice.
extern const Kernel kAdamW8bit;  // of AdamArguments

}  // namespace zero
