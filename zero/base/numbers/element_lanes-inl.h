// load_lanes(), store_lanes(): convert vectors of floats from and to fp32, bf16 or fp16 memory, in Highway kernels.
//
//   const auto g = load_lanes(d, gradient + i);        // from float, BFloat16Bits or Float16Bits; always floats
//   const auto kept = store_lanes(d, p, low + i);      // the bits of rounded_to<T>() in zero/base/numbers/dtype.h
//
// store_lanes() returns the stored values as floats. The bits are the same on every target. It uses the processor's
// fp16 conversion if there is one (x86 with AVX2), otherwise the arithmetic of dtype.h. Pointers need only the
// alignment of their element. A kernel's .cpp includes this file once per target, so it has no #pragma once.
#if defined(ZERO_BASE_ELEMENT_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_BASE_ELEMENT_LANES_INL_H_
#undef ZERO_BASE_ELEMENT_LANES_INL_H_
#else
#define ZERO_BASE_ELEMENT_LANES_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "zero/base/numbers/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether Highway converts fp16 by an instruction on this target.
#ifdef HWY_DISABLE_F16C
constexpr bool kConvertsFloat16 = false;
#else
constexpr bool kConvertsFloat16 = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2;
#endif

template <class D>
HWY_INLINE hn::Vec<D> load_lanes(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_lanes(D d, const BFloat16Bits* from) {
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

// Converts fp16 in the low halves of 32-bit words to floats.
template <class D, class W>
HWY_INLINE hn::Vec<D> float16_to_lanes(D d, W halves) {
  const hn::Rebind<std::uint32_t, D> d32;
  const auto word = hn::ShiftLeft<16>(halves);
  const auto twice = hn::Add(word, word);
  const auto normal =
      hn::Mul(hn::BitCast(d, hn::Add(hn::ShiftRight<4>(twice), hn::Set(d32, 0x70000000U))), hn::Set(d, 0x1p-112F));
  const auto subnormal =
      hn::Sub(hn::BitCast(d, hn::Or(hn::ShiftRight<17>(twice), hn::Set(d32, 0x3f000000U))), hn::Set(d, 0.5F));
  // Halves have 16 bits, so `twice` shifted by one is not negative as a signed number.
  const hn::Rebind<std::int32_t, D> di32;
  const auto is_subnormal =
      hn::RebindMask(d, hn::Lt(hn::BitCast(di32, hn::ShiftRight<1>(twice)), hn::Set(di32, 0x04000000)));
  const auto magnitude = hn::BitCast(d32, hn::IfThenElse(is_subnormal, subnormal, normal));
  return hn::BitCast(d, hn::Or(hn::And(word, hn::Set(d32, 0x80000000U)), magnitude));
}

// Converts floats to fp16 in the low halves of 32-bit words.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint32_t, D>> lanes_to_float16(D d, hn::Vec<D> value) {
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::int32_t, D> di32;
  const auto bits = hn::BitCast(d32, value);
  const auto magnitude = hn::Mul(hn::Mul(hn::Abs(value), hn::Set(d, 0x1p112F)), hn::Set(d, 0x1p-110F));
  // Half of `exponent` in dtype.h, so it is not negative.
  const auto exponent = hn::BitCast(di32, hn::And(bits, hn::Set(d32, 0x7f800000U)));
  const auto bias = hn::BitCast(d32, hn::Max(exponent, hn::Set(di32, 0x38800000)));
  const auto sum = hn::Add(hn::BitCast(d, hn::Add(bias, hn::Set(d32, 0x07800000U))), magnitude);
  const auto rounded = hn::BitCast(d32, sum);
  const auto finite =
      hn::Add(hn::And(hn::ShiftRight<13>(rounded), hn::Set(d32, 0x7c00U)), hn::And(rounded, hn::Set(d32, 0x0fffU)));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(value));
  const auto chosen = hn::IfThenElse(is_nan, hn::Set(d32, 0x7e00U), finite);
  return hn::Or(hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 0x8000U)), chosen);
}

template <class D>
HWY_INLINE hn::Vec<D> load_lanes(D d, const Float16Bits* from) {
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(from));
  if constexpr (kConvertsFloat16) {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
  } else {
    return float16_to_lanes(d, hn::PromoteTo(hn::Rebind<std::uint32_t, D>(), bits));
  }
}

// Stores the low halves of 32-bit words. The demotion saturates, but no word reaches 2^16.
template <class D, class W>
HWY_INLINE void store_low_halves(D, W words, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::Rebind<std::int32_t, D>(), words)), d16, to);
}

template <class D>
HWY_INLINE hn::Vec<D> store_lanes(D d, hn::Vec<D> value, float* to) {
  hn::StoreU(value, d, to);
  return value;
}

template <class D>
HWY_INLINE hn::Vec<D> store_lanes(D d, hn::Vec<D> value, BFloat16Bits* to) {
  const hn::Rebind<std::uint32_t, D> d32;
  const auto bits = hn::BitCast(d32, value);
  const auto high = hn::ShiftRight<16>(bits);
  const auto tie = hn::And(high, hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(tie, hn::Set(d32, 0x7fff))));
  const auto quiet_nan = hn::Or(high, hn::Set(d32, 0x40));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(value));
  const auto chosen = hn::IfThenElse(is_nan, quiet_nan, rounded);
  store_low_halves(d, chosen, reinterpret_cast<std::uint16_t*>(to));
  return hn::BitCast(d, hn::ShiftLeft<16>(chosen));
}

template <class D>
HWY_INLINE hn::Vec<D> store_lanes(D d, hn::Vec<D> value, Float16Bits* to) {
  if constexpr (kConvertsFloat16) {
    // The processor would keep a part of a NaN's payload. dtype.h uses the quiet NaN with an empty payload.
    const hn::Rebind<std::uint32_t, D> d32;
    const auto sign = hn::And(hn::BitCast(d32, value), hn::Set(d32, 0x80000000U));
    const auto nan = hn::BitCast(d, hn::Or(sign, hn::Set(d32, 0x7fc00000U)));
    const auto halves = hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), hn::IfThenElse(hn::IsNaN(value), nan, value));
    const hn::Rebind<std::uint16_t, D> d16;
    hn::StoreU(hn::BitCast(d16, halves), d16, reinterpret_cast<std::uint16_t*>(to));
    return hn::PromoteTo(d, halves);
  } else {
    const auto words = lanes_to_float16(d, value);
    store_low_halves(d, words, reinterpret_cast<std::uint16_t*>(to));
    return float16_to_lanes(d, words);
  }
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
