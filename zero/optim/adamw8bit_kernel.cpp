#include "zero/optim/adamw8bit_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/adamw8bit_kernel.cpp"
#include <algorithm>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/base/element_lanes-inl.h"
#include "zero/optim/adam-inl.h"
#include "zero/optim/eight_bit_code-inl.h"
#include "zero/optim/for_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

constexpr auto kBlock8 = static_cast<std::size_t>(kCodeBlock);

// A block of moments in fp32, between decoding and encoding: from there its scales are known.
struct BlockMoments {
  HWY_ALIGN float first[kBlock8];
  HWY_ALIGN float second[kBlock8];
};

// Elements whose lines are asked for together: a line of codes.
constexpr std::size_t kGroup = 64;

template <class T>
HWY_INLINE void prefetch_group(const T* from) {
  for (std::size_t i = 0; i < kGroup; i += 64 / sizeof(T)) hwy::Prefetch(from + i);
}

// A block of a span; `ahead`: elements that follow it, to be asked for. Two loops: in one a core would wait for the divisions
// of so few elements at a time that it did nothing else, because what it holds of the next instructions ends there.
template <class Low, class G>
HWY_INLINE void update_block(const UpdateSpan& span, const Adam<false>& adam, std::size_t begin, std::size_t numel,
                             std::size_t ahead) {
  const G* HWY_RESTRICT gradient = reinterpret_cast<const G*>(span.gradient) + begin;
  float* HWY_RESTRICT parameter = span.parameter + begin;
  const CodedState first = span.coded[0].from(static_cast<std::int64_t>(begin));
  const CodedState second = span.coded[1].from(static_cast<std::int64_t>(begin));
  const float half_first = 0.5F * *first.scales, half_second = 0.5F * *second.scales;
  const hn::ScalableTag<float> d_all;
  BlockMoments moments;
  BlockPeak most_first(d_all), most_second(d_all);
  for (std::size_t group = 0; group < numel; group += kGroup) {
    if (group + kGroup <= ahead) {
      prefetch_group(gradient + kBlock8 + group);
      prefetch_group(first.codes + kBlock8 + group);
      prefetch_group(second.codes + kBlock8 + group);
    }
    for_lanes(group, std::min(group + kGroup, numel), [&](auto d, std::size_t i) HWY_ATTR {
      const auto g = hn::Mul(load_lanes(d, gradient + i), hn::Set(d, adam.c.gradient_scale));
      auto m = decode_lanes<SignedCode>(d, first.codes + i, half_first);
      auto v = decode_lanes<UnsignedCode>(d, second.codes + i, half_second);
      adam.update_moments(d, g, m, v);
      hn::StoreU(m, d, moments.first + i);
      hn::StoreU(v, d, moments.second + i);
      most_first.add(d, m);
      most_second.add(d, v);
    });
  }
  const float two_over_first = begin_block(most_first.bits(), first.scales);
  const float two_over_second = begin_block(most_second.bits(), second.scales);
  for (std::size_t group = 0; group < numel; group += kGroup) {
    if (group + kGroup <= ahead) prefetch_group(parameter + kBlock8 + group);
    for_lanes(group, std::min(group + kGroup, numel), [&](auto d, std::size_t i) HWY_ATTR {
      const auto m = hn::LoadU(d, moments.first + i), v = hn::LoadU(d, moments.second + i);
      auto p = hn::LoadU(d, parameter + i);
      adam.update_parameter(d, p, m, v);
      hn::StoreU(p, d, parameter + i);
      if constexpr (!std::is_same_v<Low, float>)
        store_lanes(d, p, reinterpret_cast<Low*>(span.low_precision) + begin + i);
      encode_lanes<SignedCode>(d, m, two_over_first, first.codes + i);
      encode_lanes<UnsignedCode>(d, v, two_over_second, second.codes + i);
    });
  }
  clear_zero_block(two_over_first, numel, first.codes);
  clear_zero_block(two_over_second, numel, second.codes);
}

template <class Low, class G>
HWY_INLINE void update_blocks(const UpdateSpan span, const AdamConstants& c) {
  const Adam<false> adam{c};
  const auto numel = static_cast<std::size_t>(span.numel);
  for (std::size_t begin = 0; begin < numel; begin += kBlock8) {
    const std::size_t count = std::min(kBlock8, numel - begin);
    update_block<Low, G>(span, adam, begin, count, numel - begin - count);
  }
}

void adamw8bit_target(const UpdateSpan& span, const AdamConstants& c) {
  with_type_of(span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    if (span.low_precision == nullptr) {
      update_blocks<float, G>(span, c);
    } else if (span.low_precision_dtype == DType::kFloat16) {
      update_blocks<Float16Bits, G>(span, c);
    } else {
      update_blocks<BFloat16Bits, G>(span, c);
    }
  });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(adamw8bit_target);

void adamw8bit_update(const UpdateSpan& span, const AdamConstants& constants) {
  HWY_DYNAMIC_DISPATCH(adamw8bit_target)(span, constants);
}

const Kernel kAdamW8bit = kernel_of<AdamArguments, &update_each<AdamConstants, &adamw8bit_update>>("adamw8bit");

}  // namespace zero
#endif  // HWY_ONCE
