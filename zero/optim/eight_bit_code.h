// CodedState: a state in 8 bits: codes, a byte an element, and a scale for each block of kCodeBlock.
//
//   encode_blocks(StateCode::kSigned8, values, {codes, scales});
//   decode_blocks(StateCode::kSigned8, {codes, scales}, values);
//   decode_blocks(...); encode_blocks(...);                        // the same codes and scales as before
//
// A block's scale is its largest magnitude. Code k of n (n = 127 with a sign, n = 255 without one) stands for
// scale * expand(k / n), where expand(y) is about the fourth power of y: the float whose bits are 4 * (bits(y) - b),
// b so that expand(1) is 1. In words: of four octaves below the scale each is cut into 16 (n = 127) or 32 (n = 255)
// equal steps, of the next four into half as many, and so on, down to 4e-9 or 2e-10 of the scale. bitsandbytes' dynamic
// code has half as many steps from decade to decade; it takes a table and a search, where this takes a shift.
//
// A value becomes the code nearest to n times the shrunk value, ties to the even one; expand() is no line within a
// step, so that this may differ from the nearest value by a little. Of states without a sign nothing above zero becomes
// zero: a root of theirs divides. A block whose largest magnitude is below 2^-90 is zero, and one with a value that is
// not finite is NaN. The largest element of a block is kept exactly, and what was decoded is encoded without loss.
//
// The same bits on every instruction set. Local.
#pragma once

#include <cstdint>
#include <span>

#include "zero/base/state_spec.h"

namespace zero {

struct CodedState {
  std::uint8_t* codes = nullptr;
  float* scales = nullptr;  // of the block of codes[0], and those that follow
  // `begin`: a multiple of kCodeBlock.
  CodedState from(std::int64_t begin) const {
    return codes == nullptr ? *this : CodedState{codes + begin, scales + begin / kCodeBlock};
  }
};

// From the first element of a block on; the last block may be a part of one. Of codes without a sign: of magnitudes.
void encode_blocks(StateCode code, std::span<const float> values, CodedState into);
void decode_blocks(StateCode code, CodedState from, std::span<float> values);

}  // namespace zero
