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

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

constexpr auto kBlock8 = static_cast<std::size_t>(kCodeBlock);

// New moments of a block. Their codes are made while the next block is updated: the one is shifts and additions, the
// other waits for divisions and roots.
struct BlockMoments {
  HWY_ALIGN float first[kBlock8];
  HWY_ALIGN float second[kBlock8];
  float two_over_first = 0, two_over_second = 0;
};

// Element i of the span, of a block that begins at `begin`, and as many as d has lanes.
template <class Low, class D, class G>
HWY_INLINE void update_lanes(D d, const G* HWY_RESTRICT gradient, const UpdateSpan& span, const AdamConstants& c,
                             std::size_t begin, std::size_t i, BlockMoments& moments) {
  const CodedState &first = span.coded[0], &second = span.coded[1];
  const auto g = hn::Mul(load_lanes(d, gradient + i), hn::Set(d, c.gradient_scale));
  auto p = hn::LoadU(d, span.parameter + i);
  auto m = decode_lanes<SignedCode>(d, first.codes + i, 0.5F * first.scales[begin / kBlock8]);
  auto v = decode_lanes<UnsignedCode>(d, second.codes + i, 0.5F * second.scales[begin / kBlock8]);
  Adam<false>{c}(d, g, p, m, v);
  hn::StoreU(p, d, span.parameter + i);
  if constexpr (!std::is_same_v<Low, float>) store_lanes(d, p, reinterpret_cast<Low*>(span.low_precision) + i);
  hn::StoreU(m, d, moments.first + (i - begin));
  hn::StoreU(v, d, moments.second + (i - begin));
}

// The codes of elements [done, numel) of the block that begins at `begin`.
HWY_INLINE void end_moments(const UpdateSpan& span, const BlockMoments& moments, std::size_t begin, std::size_t done,
                            std::size_t numel) {
  end_block<SignedCode>(moments.first, done, numel, moments.two_over_first, span.coded[0].codes + begin);
  end_block<UnsignedCode>(moments.second, done, numel, moments.two_over_second, span.coded[1].codes + begin);
}

template <class Low, class G>
HWY_INLINE void update_blocks(const G* HWY_RESTRICT gradient, const UpdateSpan span, const AdamConstants c) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const std::size_t lanes = hn::Lanes(d);
  const auto numel = static_cast<std::size_t>(span.numel);
  const CodedState &first = span.coded[0], &second = span.coded[1];
  BlockMoments both[2];
  std::size_t begin = 0, end = 0;
  for (; end < numel; begin = end) {
    end = std::min(begin + kBlock8, numel);
    BlockMoments &moments = both[begin / kBlock8 % 2], &last = both[(begin / kBlock8 + 1) % 2];
    BlockPeak most_first(d), most_second(d);
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      const std::size_t ahead = std::min(i + kBlock8, numel - 1);
      hwy::Prefetch(gradient + ahead);
      hwy::Prefetch(span.parameter + ahead);
      hwy::Prefetch(first.codes + ahead);
      hwy::Prefetch(second.codes + ahead);
      update_lanes<Low>(d, gradient, span, c, begin, i, moments);
      const std::size_t at = i - begin;
      most_first.add(d, hn::LoadU(d, moments.first + at));
      most_second.add(d, hn::LoadU(d, moments.second + at));
      if (begin == 0) continue;
      encode_lanes<SignedCode>(d, hn::LoadU(d, last.first + at), last.two_over_first, first.codes + (i - kBlock8));
      encode_lanes<UnsignedCode>(d, hn::LoadU(d, last.second + at), last.two_over_second, second.codes + (i - kBlock8));
    }
    if (begin > 0) end_moments(span, last, begin - kBlock8, i - begin, kBlock8);
    for (; i < end; ++i) {
      update_lanes<Low>(one, gradient, span, c, begin, i, moments);
      most_first.add(moments.first[i - begin]);
      most_second.add(moments.second[i - begin]);
    }
    moments.two_over_first = begin_block(most_first.bits(), first.scales + begin / kBlock8);
    moments.two_over_second = begin_block(most_second.bits(), second.scales + begin / kBlock8);
  }
  if (numel > 0) {
    const std::size_t block = (numel - 1) / kBlock8;
    end_moments(span, both[block % 2], block * kBlock8, 0, numel - block * kBlock8);
  }
}

void adamw8bit_target(const UpdateSpan& span, const AdamConstants& c) {
  with_type_of(span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    const auto* gradient = reinterpret_cast<const G*>(span.gradient);
    if (span.low_precision == nullptr) {
      update_blocks<float>(gradient, span, c);
    } else if (span.low_precision_dtype == DType::kFloat16) {
      update_blocks<Float16Bits>(gradient, span, c);
    } else {
      update_blocks<BFloat16Bits>(gradient, span, c);
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

}  // namespace zero
#endif  // HWY_ONCE
