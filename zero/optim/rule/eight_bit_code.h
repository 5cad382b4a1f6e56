// CodedState: a state in 8 bits: one code byte per element, and a scale per block of kCodeBlock elements.
//
//   encode_blocks(StateCode::kSigned8, values, {codes, scales});
//   decode_blocks(StateCode::kSigned8, {codes, scales}, values);
//   decode_blocks(...); encode_blocks(...);                        // restores the same codes and scales
//
// A block's scale is its largest magnitude. Code k of n (n = 127 signed, 255 unsigned) represents scale * expand(k /
// n). expand(y) is roughly y^4: the float with bits 4 * (bits(y) - b), with b such that expand(1) = 1. The four octaves
// below the scale have 16 (signed) or 32 (unsigned) equal steps each. The next four have half as many, and so on, down
// to 4e-9 or 2e-10 of the scale. bitsandbytes' dynamic code has half as many steps per decade, and needs a table and a
// search instead of a shift.
//
// Invariants: a block's largest element is exact, and decoded values encode without loss. All instruction sets give the
// same bits. Local.
#pragma once

#include <cstdint>
#include <span>

#include "zero/base/numbers/state_spec.h"

namespace zero {

struct CodedState {
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;  // scale of the block of codes[0], then those of the following blocks
  // `begin` must be a multiple of kCodeBlock.
  CodedState from(std::int64_t begin) const {
    return codes == nullptr ? *this : CodedState{codes + begin, scales + begin / kCodeBlock};
  }
};

// Encodes or decodes blocks, from the first element of a block on; the last block may be partial. Unsigned codes store
// magnitudes. A value gets the code nearest to n times the inverse of expand(), ties to even. Within a step expand() is
// not linear, so this may not be the nearest value. With unsigned codes no value above zero becomes zero, because
// updates divide by its root. A block is zero if its largest magnitude is below 2^-90, and NaN if any value is not
// finite.
void encode_blocks(StateCode code, std::span<const float> values, CodedState into);
void decode_blocks(StateCode code, CodedState from, std::span<float> values);

}  // namespace zero
