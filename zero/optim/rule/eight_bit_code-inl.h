// decode_lanes(), encode_lanes(): convert vectors of floats from and to 8-bit codes (zero/optim/rule/eight_bit_code.h).
//
//   using Code = SignedCode;
//   const auto m = decode_lanes<Code>(d, codes + i, 0.5F * scale);
//   BlockPeak peak(d);  peak.add(d, m);                             // every element of the block
//   const float two_over = begin_block(peak.bits(), scale);         // writes its scale
//   end_block<Code>(values, numel, two_over, codes);                // writes its codes
//
// For kernels that Highway compiles once per target. A kernel's .cpp includes this file once per target, so it has no
// #pragma once.
#if defined(ZERO_OPTIM_EIGHT_BIT_CODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_EIGHT_BIT_CODE_INL_H_
#undef ZERO_OPTIM_EIGHT_BIT_CODE_INL_H_
#else
#define ZERO_OPTIM_EIGHT_BIT_CODE_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <hwy/highway.h>

#include "zero/base/numbers/state_spec.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct SignedCode {
  static constexpr bool kHasSign = true;
  static constexpr float kMost = 127;
};
struct UnsignedCode {
  static constexpr bool kHasSign = false;
  static constexpr float kMost = 255;
};

// The bits of 2 are four times those of kTiny. So a shift converts a fraction of kTiny to a fraction of 2, and back.
// Half of the scale, and 2 / scale, make those fractions of 1.
constexpr float kTiny = 0x1p-95F;
constexpr float kLeastScale = 0x1p-90F;  // the block's smallest code is still a normal float
constexpr std::uint32_t kInfinityBits = 0x7f800000;
constexpr std::uint32_t kNanBits = 0x7fc00000;
constexpr float kRounding = 0x1.8p23F;  // adding it to a small number leaves the number's integer in the low bits

// Decodes a vector. `half_scale`: half of the block's scale.
template <class Code, class D>
HWY_INLINE hn::Vec<D> decode_lanes(D d, const std::uint8_t* codes, float half_scale) {
  const hn::Rebind<std::int32_t, D> di;
  using Byte = std::conditional_t<Code::kHasSign, std::int8_t, std::uint8_t>;
  const hn::Rebind<Byte, D> d8;
  const auto code = hn::PromoteTo(di, hn::LoadU(d8, reinterpret_cast<const Byte*>(codes)));
  const auto shrunk = hn::BitCast(di, hn::Mul(hn::ConvertTo(d, code), hn::Set(d, kTiny / Code::kMost)));
  auto part = hn::ShiftLeft<2>(shrunk);
  if constexpr (Code::kHasSign) part = hn::OrAnd(part, shrunk, hn::Set(di, std::numeric_limits<std::int32_t>::min()));
  return hn::Mul(hn::BitCast(d, part), hn::Set(d, half_scale));
}

template <class D>
HWY_INLINE void store_low_bytes(D d, hn::Vec<hn::Rebind<std::uint32_t, D>> from, std::uint8_t* to) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  if constexpr (hn::MaxLanes(d) == 16) {  // one instruction; Highway uses two shuffles
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(from.raw));
    return;
  }
#endif
  const hn::Rebind<std::uint32_t, D> du;
  hn::StoreU(hn::U8FromU32(hn::And(from, hn::Set(du, 0xff))), hn::Rebind<std::uint8_t, D>(), to);
}

// Returns a code before it is rounded to an integer.
template <class Code, class D>
HWY_INLINE hn::Vec<D> place_in_code(D d, hn::Vec<D> value, float two_over) {
  const hn::Rebind<std::int32_t, D> di;
  const auto part = hn::BitCast(di, hn::Mul(value, hn::Set(d, two_over)));
  auto shrunk = hn::ShiftRight<2>(part);  // also shifts two copies of the sign in
  if constexpr (Code::kHasSign) shrunk = hn::And(shrunk, hn::Set(di, static_cast<std::int32_t>(0x9fffffffU)));
  return hn::Mul(hn::BitCast(d, shrunk), hn::Set(d, Code::kMost / kTiny));
}

// Encodes a vector. `two_over`: 2 / scale. Values of unsigned codes must not be negative.
template <class Code, class D>
HWY_INLINE void encode_lanes(D d, hn::Vec<D> value, float two_over, std::uint8_t* codes) {
  const hn::Rebind<std::uint32_t, D> du;
  auto code = hn::BitCast(du, hn::Add(place_in_code<Code>(d, value, two_over), hn::Set(d, kRounding)));
  if constexpr (!Code::kHasSign) {  // values above zero get at least code 1
    const auto above = hn::RebindMask(du, hn::Ne(value, hn::Zero(d)));
    code = hn::IfThenElse(above, hn::Max(code, hn::Set(du, std::bit_cast<std::uint32_t>(kRounding) + 1)), code);
  }
  store_low_bytes(d, code, codes);
}

// Encodes four vectors.
template <class Code, class D>
HWY_INLINE void encode_four(D d, const float* HWY_RESTRICT values, float two_over, std::uint8_t* HWY_RESTRICT codes) {
  const std::size_t lanes = hn::Lanes(d);
#if HWY_TARGET == HWY_AVX2
  if constexpr (hn::MaxLanes(d) == 8) {  // packs four vectors together, with half of the instructions
    const hn::Rebind<std::int32_t, D> di;
    const auto place_of = [&](hn::Vec<D> value) HWY_ATTR {
      return _mm256_cvtps_epi32(place_in_code<Code>(d, value, two_over).raw);  // rounds to nearest, as kRounding does
    };
    const auto bits_of = [&](hn::Vec<D> value) HWY_ATTR { return hn::BitCast(di, value).raw; };
    const auto v0 = hn::LoadU(d, values), v1 = hn::LoadU(d, values + lanes);
    const auto low = _mm256_packs_epi32(place_of(v0), place_of(v1));
    const auto v2 = hn::LoadU(d, values + 2 * lanes), v3 = hn::LoadU(d, values + 3 * lanes);
    const auto high = _mm256_packs_epi32(place_of(v2), place_of(v3));
    __m256i four;
    if constexpr (Code::kHasSign) {
      four = _mm256_packs_epi16(low, high);
    } else {  // values above zero get at least code 1: packing maps no value above zero to zero
      const auto above = _mm256_packus_epi16(_mm256_packs_epi32(bits_of(v0), bits_of(v1)),
                                             _mm256_packs_epi32(bits_of(v2), bits_of(v3)));
      four = _mm256_max_epu8(_mm256_packus_epi16(low, high), _mm256_min_epu8(above, _mm256_set1_epi8(1)));
    }
    // The two halves of a register were packed separately.
    four = _mm256_permutevar8x32_epi32(four, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), four);
    return;
  }
#endif
  for (std::size_t at = 0; at < 4 * lanes; at += lanes)
    encode_lanes<Code>(d, hn::LoadU(d, values + at), two_over, codes + at);
}

// A vector as a class member. SVE vectors have no size, so they are stored in memory.
#if HWY_HAVE_SCALABLE
template <class D>
class HeldLanes {
 public:
  explicit HWY_INLINE HeldLanes(hn::Vec<D> value) { set(value); }
  HWY_INLINE void set(hn::Vec<D> value) { hn::StoreU(value, D(), lanes_); }
  HWY_INLINE hn::Vec<D> get() const { return hn::LoadU(D(), lanes_); }

 private:
  hn::TFromD<D> lanes_[hn::MaxLanes(D())];
};
#else
template <class D>
class HeldLanes {
 public:
  explicit HWY_INLINE HeldLanes(hn::Vec<D> value) : value_(value) {}
  HWY_INLINE void set(hn::Vec<D> value) { value_ = value; }
  HWY_INLINE hn::Vec<D> get() const { return value_; }

 private:
  hn::Vec<D> value_;
};
#endif

// The bits of a block's largest magnitude; a NaN's bits are above infinity's. Values are added as vectors or one by
// one.
template <class D>
class BlockPeak {
 public:
  explicit HWY_INLINE BlockPeak(D /*d*/) : most_(hn::Zero(Bits())), rest_(hn::Zero(OneBits())) {}
  template <class AnyD>
  HWY_INLINE void add(AnyD d, hn::Vec<AnyD> value) {
    add_unsigned(d, hn::Abs(value));
  }
  // Adds non-negative values. A NaN may have a sign: its bits are above infinity's in any case.
  template <class AnyD>
  HWY_INLINE void add_unsigned(AnyD /*d*/, hn::Vec<AnyD> value) {
    const auto bits = hn::BitCast(hn::Rebind<std::uint32_t, AnyD>(), value);
    if constexpr (std::is_same_v<AnyD, D>) {
      most_.set(hn::Max(most_.get(), bits));
    } else {
      rest_.set(hn::Max(rest_.get(), bits));
    }
  }
  HWY_INLINE void add(float value) {
    const hn::CappedTag<float, 1> one;
    add(one, hn::Set(one, value));
  }
  HWY_INLINE std::uint32_t bits() const {
    return std::max(hn::GetLane(rest_.get()), hn::GetLane(hn::MaxOfLanes(Bits(), most_.get())));
  }

 private:
  using Bits = hn::Rebind<std::uint32_t, D>;
  using OneBits = hn::CappedTag<std::uint32_t, 1>;
  HeldLanes<Bits> most_;
  HeldLanes<OneBits> rest_;
};

// Writes the block's scale, and returns two_over for encode_lanes(): 2 / scale, or 0 if all codes of the block are 0.
HWY_INLINE float begin_block(std::uint32_t peak_bits, float* HWY_RESTRICT scale) {
  const float peak = std::bit_cast<float>(peak_bits);
  const bool finite = peak_bits < kInfinityBits;
  *scale = !finite ? std::bit_cast<float>(kNanBits) : peak < kLeastScale ? 0.0F : peak;
  return finite && peak >= kLeastScale ? 2 / peak : 0.0F;
}

// Sets all codes of a block to 0 if two_over is 0, whatever was encoded.
HWY_INLINE void clear_zero_block(float two_over, std::size_t numel, std::uint8_t* HWY_RESTRICT codes) {
  if (two_over == 0) std::memset(codes, 0, numel);
}

// Encodes a block's elements; numel <= kCodeBlock.
template <class Code>
HWY_INLINE void end_block(const float* HWY_RESTRICT values, std::size_t numel, float two_over,
                          std::uint8_t* HWY_RESTRICT codes) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= numel; i += lanes) encode_lanes<Code>(d, hn::LoadU(d, values + i), two_over, codes + i);
  const hn::CappedTag<float, 1> one;
  for (; i < numel; ++i) encode_lanes<Code>(one, hn::LoadU(one, values + i), two_over, codes + i);
  clear_zero_block(two_over, numel, codes);
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
