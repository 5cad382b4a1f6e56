// Vectors of floats read from and written to fp32 or bf16 memory, for kernels that Highway compiles once a target.
//
//   const auto g = load_lanes(d, gradient + i);   // const float* or const BFloat16Bits*: always floats in the vector
//   store_bfloat16(d, p, low_precision + i);      // the bits of to_bfloat16() in zero/base/dtype.h
//
// Included once a target by a kernel's .cpp, hence no #pragma once. Pointers need the alignment of their element only.
#if defined(ZERO_OPTIM_BFLOAT16_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ZERO_OPTIM_BFLOAT16_LANES_INL_H_
#undef ZERO_OPTIM_BFLOAT16_LANES_INL_H_
#else
#define ZERO_OPTIM_BFLOAT16_LANES_INL_H_
#endif

#include <cstdint>

#include <hwy/highway.h>

#include "zero/base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_lanes(D d, const float* from) {
  return hn::LoadU(d, from);
}

template <class D>
HWY_INLINE hn::Vec<D> load_lanes(D d, const BFloat16Bits* from) {
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, from))));
}

template <class D>
HWY_INLINE void store_bfloat16(D d, hn::Vec<D> value, BFloat16Bits* to) {
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::int32_t, D> di32;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, value);
  const auto high = hn::ShiftRight<16>(bits);
  const auto tie = hn::And(high, hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(tie, hn::Set(d32, 0x7fff))));
  const auto quiet_nan = hn::Or(high, hn::Set(d32, 0x40));
  const auto is_nan = hn::RebindMask(d32, hn::Ne(value, value));
  // The demotion saturates, and has nothing to saturate: both choices are below 2^16.
  const auto chosen = hn::IfThenElse(is_nan, quiet_nan, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, chosen)), d16, to);
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // once a target
