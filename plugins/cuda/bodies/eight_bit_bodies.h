// decode_code(), encode_value(), BlockScale: moments in 8 bits, with the bits of zero/optim/rule/eight_bit_code-inl.h.
//
//   float m = decode_code<SignedBody>(code, mul(0.5F, scale));
//   const BlockScale block = block_scale(peak);           // peak: the largest magnitude_bits() of the block
//   code = encode_value<SignedBody>(m, block.two_over);
//
// load_codes(), decoded() and store_coded() update an element of AdamW with such moments
// (zero/optim/elementwise/adamw8bit_kernel.h). A block of kCodeBlock elements must be updated together: all are loaded,
// their peaks are found, and all are stored with the new scales. zero/optim/rule/eight_bit_code.h has the arithmetic.
// Local.
#pragma once

#include "plugins/cuda/bodies/rule_bodies.h"

namespace zero::bodies {

struct SignedBody {
  static constexpr bool kHasSign = true;
  static constexpr float kMost = 127;
};
struct UnsignedBody {
  static constexpr bool kHasSign = false;
  static constexpr float kMost = 255;
};

// zero/optim/rule/eight_bit_code-inl.h explains these constants.
constexpr float kTinyScale = 0x1p-95F;
constexpr float kLeastBlockScale = 0x1p-90F;
constexpr float kIntegerRounding = 0x1.8p23F;

// Decodes a code. `half_scale`: half of the block's scale.
template <typename Code>
ZERO_BODY float decode_code(std::uint8_t code, float half_scale) {
  const int integer = Code::kHasSign ? static_cast<std::int8_t>(code) : static_cast<int>(code);
  constexpr float kUnit = kTinyScale / Code::kMost;
  const std::uint32_t shrunk = bits_of(mul(static_cast<float>(integer), kUnit));
  std::uint32_t part = shrunk << 2;
  if constexpr (Code::kHasSign) part |= shrunk & 0x80000000U;
  return mul(float_of(part), half_scale);
}

// Encodes a value. `two_over`: 2 / scale; if it is 0, all codes of the block are 0.
template <typename Code>
ZERO_BODY std::uint8_t encode_value(float value, float two_over) {
  if (two_over == 0) return 0;
  const auto part = static_cast<std::int32_t>(bits_of(mul(value, two_over)));
  auto shrunk = static_cast<std::uint32_t>(part >> 2);
  if constexpr (Code::kHasSign) shrunk &= 0x9fffffffU;
  constexpr float kPlaces = Code::kMost / kTinyScale;
  const float place = mul(float_of(shrunk), kPlaces);
  std::uint32_t code = bits_of(add(place, kIntegerRounding)) & 0xffU;
  if constexpr (!Code::kHasSign) {  // values above zero get at least code 1
    const std::uint32_t least = bits_of(value) < 1U ? bits_of(value) : 1U;
    code = code > least ? code : least;
  }
  return static_cast<std::uint8_t>(code);
}

// Returns the magnitude as an integer with the same order; a NaN is above infinity.
ZERO_BODY std::int32_t magnitude_bits(float value) {
  return static_cast<std::int32_t>(bits_of(value) & 0x7fffffffU);
}

struct BlockScale {
  float scale = 0, two_over = 0;
};

ZERO_BODY BlockScale block_scale(std::int32_t peak_bits) {
  const float peak = float_of(static_cast<std::uint32_t>(peak_bits));
  if (peak_bits >= 0x7f800000) return {float_of(0x7fc00000U), 0};
  if (peak < kLeastBlockScale) return {0, 0};
  return {peak, div(2.0F, peak)};
}

struct CodedSlice {
  Slice slice;
  CodedState first, second;
};

inline CodedSlice coded_slice_of(const UpdateSpan& span) {
  return {slice_of(span), span.coded[0], span.coded[1]};
}

struct CodedElement {
  float g = 0, p = 0;
  std::uint8_t first = 0, second = 0;
};

template <typename G>
ZERO_BODY CodedElement load_codes(const CodedSlice& s, const AdamBody& adam, std::int64_t i) {
  return {.g = mul(to_float(reinterpret_cast<const G*>(s.slice.gradient)[i]), adam.c.gradient_scale),
          .p = s.slice.parameter[i],
          .first = s.first.codes[i],
          .second = s.second.codes[i]};
}

// Returns the element with its new moments.
ZERO_BODY Element decoded(const CodedElement& c, const AdamBody& adam, float first_scale, float second_scale) {
  Element e{.g = c.g,
            .p = c.p,
            .first = decode_code<SignedBody>(c.first, mul(0.5F, first_scale)),
            .second = decode_code<UnsignedBody>(c.second, mul(0.5F, second_scale))};
  adam.update_moments(e.g, e.first, e.second);
  return e;
}

template <typename Low>
ZERO_BODY void store_coded(const CodedSlice& s, const AdamBody& adam, Element e, float first_two_over,
                           float second_two_over, std::int64_t i) {
  adam.update_parameter(e.p, e.first, e.second);
  s.slice.parameter[i] = e.p;
  store_low<Low>(s.slice.low, e.p, i);
  s.first.codes[i] = encode_value<SignedBody>(e.first, first_two_over);
  s.second.codes[i] = encode_value<UnsignedBody>(e.second, second_two_over);
}

}  // namespace zero::bodies
