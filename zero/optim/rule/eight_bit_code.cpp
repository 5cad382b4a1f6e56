#include "zero/optim/rule/eight_bit_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/rule/eight_bit_code.cpp"
#include <algorithm>
#include <cmath>

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/optim/rule/eight_bit_code-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

template <class Code>
void encode_all(const float* values, std::size_t numel, CodedState into) {
  constexpr auto kBlock = static_cast<std::size_t>(kCodeBlock);
  const hn::ScalableTag<float> d;
  for (std::size_t begin = 0; begin < numel; begin += kBlock) {
    const std::size_t count = std::min(kBlock, numel - begin);
    BlockPeak peak(d);
    float block[kBlock];
    for (std::size_t i = 0; i < count; ++i) {
      block[i] = Code::kHasSign ? values[begin + i] : std::abs(values[begin + i]);
      peak.add(block[i]);
    }
    const float two_over = begin_block(peak.bits(), into.scales + begin / kBlock);
    end_block<Code>(block, count, two_over, into.codes + begin);
  }
}

template <class Code>
void decode_all(CodedState from, float* values, std::size_t numel) {
  constexpr auto kBlock = static_cast<std::size_t>(kCodeBlock);
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t begin = 0; begin < numel; begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, numel);
    const float half_scale = 0.5F * from.scales[begin / kBlock];
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) hn::StoreU(decode_lanes<Code>(d, from.codes + i, half_scale), d, values + i);
    for (; i < end; ++i) hn::StoreU(decode_lanes<Code>(one, from.codes + i, half_scale), one, values + i);
  }
}

void encode_target(bool has_sign, const float* values, std::size_t numel, CodedState into) {
  has_sign ? encode_all<SignedCode>(values, numel, into) : encode_all<UnsignedCode>(values, numel, into);
}

void decode_target(bool has_sign, CodedState from, float* values, std::size_t numel) {
  has_sign ? decode_all<SignedCode>(from, values, numel) : decode_all<UnsignedCode>(from, values, numel);
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(encode_target);
HWY_EXPORT(decode_target);

void encode_blocks(StateCode code, std::span<const float> values, CodedState into) {
  HWY_DYNAMIC_DISPATCH(encode_target)(code == StateCode::kSigned8, values.data(), values.size(), into);
}

void decode_blocks(StateCode code, CodedState from, std::span<float> values) {
  HWY_DYNAMIC_DISPATCH(decode_target)(code == StateCode::kSigned8, from, values.data(), values.size());
}

}  // namespace zero
#endif  // HWY_ONCE
