#include "zero/optim/elementwise/adamw8bit_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/optim/elementwise/adamw8bit_kernel.cpp"
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "zero/base/error/check.h"
#include "zero/base/numbers/element_lanes-inl.h"
#include "zero/optim/elementwise/adam-inl.h"
#include "zero/optim/lanes/for_lanes-inl.h"
#include "zero/optim/rule/eight_bit_code-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {

constexpr auto kBlock8 = static_cast<std::size_t>(kCodeBlock);
constexpr std::size_t kGroup = 64;  // elements between checks of blocks and prefetches: a cache line of codes
constexpr std::size_t kRing = 2 * kBlock8;
constexpr std::size_t kAhead = 512;  // distance of prefetches of each stream, in elements
static_assert(kRing % kGroup == 0);

// fp32 moments between decoding and encoding; element i of the span is at i % kRing.
struct MomentRing {
  HWY_ALIGN float first[kRing];
  HWY_ALIGN float second[kRing];
};

// 2 / scale of a block's moments, for encode_lanes().
struct BlockScales {
  float first = 0, second = 0;
};

template <class T>
HWY_INLINE void prefetch_group(const T* from) {
  for (std::size_t i = 0; i < kGroup; i += 64 / sizeof(T)) hwy::Prefetch(from + i);
}

// Updates a span in three stages: decode and update moments; update the parameter; encode moments, after their block's
// scales are known. A single stage leaves most of a core idle, because the second waits for the divider. So the stages
// alternate, one vector each. The second stage is a group behind the first, the third a block and a group.
template <class Low, class G>
class BlockUpdate {
 public:
  HWY_INLINE BlockUpdate(const UpdateSpan& span, const AdamConstants& c, MomentRing& ring)
      : adam_{c},
        gradient_(reinterpret_cast<const G*>(span.gradient)),
        parameter_(span.parameter),
        low_(reinterpret_cast<Low*>(span.low_precision)),
        first_(span.coded[0]),
        second_(span.coded[1]),
        numel_(static_cast<std::size_t>(span.numel)),
        ring_(ring) {}

  HWY_INLINE void run() {
    std::size_t done = 0;
    const std::size_t lanes = hn::Lanes(hn::ScalableTag<float>());
    // The second stage reads a vector ahead, within the group that the first stage decodes.
    const bool stages = kGroup % lanes == 0 && kGroup / lanes >= 4 && adam_.c.lerp_from_gradient == 0;
    if (stages && numel_ >= 2 * kBlock8) {
      done = numel_ / kBlock8 * kBlock8;
      update_in_stages(done);
    }
    for (; done < numel_; done += kBlock8) update_block(done, std::min(done + kBlock8, numel_));
  }

 private:
  static constexpr std::size_t kLag = kBlock8 + kGroup;  // lag of the third stage: scales are late

  HWY_INLINE void update_block(std::size_t begin, std::size_t end) {
    begin_block_at(begin);
    BlockPeak most_first(hn::ScalableTag<float>{}), most_second(hn::ScalableTag<float>{});
    for_lanes(begin, end, [&](auto d, std::size_t i) HWY_ATTR {
      auto m = hn::Zero(d), v = m;
      const auto g = decode(d, i, m, v);
      adam_.update_moments(d, g, m, v);
      keep(d, i % kRing, m, v);
      most_first.add(d, m);
      most_second.add_unsigned(d, v);
    });
    end_block_at(begin, most_first.bits(), most_second.bits());
    for_lanes(begin, end, [&](auto d, std::size_t i) HWY_ATTR {
      add_step(d, i, hn::LoadU(d, ring_.first + i % kRing), hn::Sqrt(hn::LoadU(d, ring_.second + i % kRing)));
      encode(d, i, scales_);
    });
    clear_zeros(begin, end - begin, scales_);
  }

  // Updates whole blocks, at least two.
  HWY_INLINE void update_in_stages(std::size_t end) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<std::uint32_t, decltype(d)> du;
    BlockScales encoded;
    auto most_first = hn::Zero(du), most_second = most_first;
    const std::size_t lanes = hn::Lanes(d);
    // Root of the second stage's next vector: it is started early, so it is ready when needed.
    auto root = hn::Zero(d);
    const auto update_groups = [&](auto has_step, auto has_encode, std::size_t from, std::size_t to) HWY_ATTR
        __attribute__((always_inline)) {
      for (std::size_t at = from; at < to; at += kGroup) {
        if (at % kBlock8 == 0) {
          begin_block_at(at);
          most_first = most_second = hn::Zero(du);
        }
        if (at % kBlock8 == kGroup) encoded = scales_;
        if (at + kAhead + kGroup <= numel_) prefetch(at + kAhead);
        // Positions of each stage's group in the ring. A group's vectors are contiguous there.
        const std::size_t decoding = at % kRing, stepping = (at - kGroup) % kRing, encoding = (at - kLag) % kRing;
        for (std::size_t i = 0; i < kGroup; i += 4 * lanes) {
#pragma GCC unroll 4
          for (std::size_t k = 0; k < 4; ++k) {
            const std::size_t j = i + k * lanes;
            if constexpr (has_step) {
              add_step(d, at - kGroup + j, hn::Load(d, ring_.first + stepping + j), root);
              const std::size_t next = stepping + j + lanes;
              root = hn::Sqrt(hn::Load(d, ring_.second + (k < 3 ? next : next % kRing)));
            }
            auto m = hn::Zero(d), v = m;
            const auto g = decode(d, at + j, m, v);
            adam_.update_moments_from(d, m, g, m, v);
            keep(d, decoding + j, m, v);
            most_first = hn::Max(most_first, hn::BitCast(du, hn::Abs(m)));
            most_second = hn::Max(most_second, hn::BitCast(du, v));
          }
          if constexpr (has_encode) encode_four_at(d, at - kLag + i, encoding + i, encoded);
        }
        if ((at + kGroup) % kBlock8 == 0)
          end_block_at(at + kGroup - kBlock8, hn::GetLane(hn::MaxOfLanes(du, most_first)),
                       hn::GetLane(hn::MaxOfLanes(du, most_second)));
        if (has_encode && at % kBlock8 == 0) clear_zeros(at - 2 * kBlock8, kBlock8, encoded);
      }
    };
    using Yes = std::true_type;
    using No = std::false_type;
    update_groups(No(), No(), 0, kGroup);
    root = hn::Sqrt(hn::Load(d, ring_.second));
    update_groups(Yes(), No(), kGroup, kLag);
    update_groups(Yes(), Yes(), kLag, end);
    for (std::size_t i = end - kGroup; i < end; i += lanes)
      add_step(d, i, hn::Load(d, ring_.first + i % kRing), hn::Sqrt(hn::Load(d, ring_.second + i % kRing)));
    encode_group(d, end - kBlock8 - kGroup, encoded);
    clear_zeros(end - 2 * kBlock8, kBlock8, encoded);
    for (std::size_t at = end - kBlock8; at < end; at += kGroup) encode_group(d, at, scales_);
    clear_zeros(end - kBlock8, kBlock8, scales_);
  }

  HWY_INLINE void begin_block_at(std::size_t begin) {
    half_first_ = 0.5F * first_.scales[begin / kBlock8];
    half_second_ = 0.5F * second_.scales[begin / kBlock8];
  }

  HWY_INLINE void prefetch(std::size_t at) const {
    prefetch_group(parameter_ + at);
    prefetch_group(gradient_ + at);
    prefetch_group(first_.codes + at);
    prefetch_group(second_.codes + at);
  }

  // Decodes the old moments, and returns the gradient.
  template <class D, class V>
  HWY_INLINE V decode(D d, std::size_t i, V& m, V& v) const {
    m = decode_lanes<SignedCode>(d, first_.codes + i, half_first_);
    v = decode_lanes<UnsignedCode>(d, second_.codes + i, half_second_);
    return hn::Mul(load_lanes(d, gradient_ + i), hn::Set(d, adam_.c.gradient_scale));
  }

  // Stores the new moments at an index of the ring.
  template <class D, class V>
  HWY_INLINE void keep(D d, std::size_t place, V m, V v) const {
    hn::StoreU(m, d, ring_.first + place);
    hn::StoreU(v, d, ring_.second + place);
  }

  HWY_INLINE void end_block_at(std::size_t begin, std::uint32_t most_first, std::uint32_t most_second) {
    scales_.first = begin_block(most_first, first_.scales + begin / kBlock8);
    scales_.second = begin_block(most_second, second_.scales + begin / kBlock8);
  }

  // Adds the step to the parameter. `m`: the new first moment. `root`: the root of the new second moment.
  template <class D, class V>
  HWY_INLINE void add_step(D d, std::size_t i, V m, V root) const {
    const auto step = hn::Div(adam_.numerator(d, m), hn::Add(root, hn::Set(d, adam_.c.eps)));
    const auto p = adam_.stepped(d, hn::LoadU(d, parameter_ + i), step);
    hn::StoreU(p, d, parameter_ + i);
    if constexpr (!std::is_same_v<Low, float>) store_lanes(d, p, low_ + i);
  }

  template <class D>
  HWY_INLINE void encode(D d, std::size_t i, const BlockScales& two_over) const {
    encode_lanes<SignedCode>(d, hn::LoadU(d, ring_.first + i % kRing), two_over.first, first_.codes + i);
    encode_lanes<UnsignedCode>(d, hn::LoadU(d, ring_.second + i % kRing), two_over.second, second_.codes + i);
  }

  template <class D>
  HWY_INLINE void encode_four_at(D d, std::size_t i, std::size_t place, const BlockScales& two_over) const {
    encode_four<SignedCode>(d, ring_.first + place, two_over.first, first_.codes + i);
    encode_four<UnsignedCode>(d, ring_.second + place, two_over.second, second_.codes + i);
  }
  template <class D>
  HWY_INLINE void encode_group(D d, std::size_t at, const BlockScales& two_over) const {
    for (std::size_t i = at; i < at + kGroup; i += 4 * hn::Lanes(d)) encode_four_at(d, i, i % kRing, two_over);
  }

  HWY_INLINE void clear_zeros(std::size_t begin, std::size_t numel, const BlockScales& two_over) const {
    clear_zero_block(two_over.first, numel, first_.codes + begin);
    clear_zero_block(two_over.second, numel, second_.codes + begin);
  }

  Adam<false> adam_;
  const G* HWY_RESTRICT gradient_;
  float* HWY_RESTRICT parameter_;
  Low* HWY_RESTRICT low_;
  CodedState first_, second_;
  std::size_t numel_;
  // of the block that the first stage decodes
  float half_first_ = 0, half_second_ = 0;
  BlockScales scales_;  // scales of the block that the first stage finished last
  MomentRing& ring_;
};

void adamw8bit_target(const UpdateSpan& span, const AdamConstants& c) {
  MomentRing ring;  // a separate object: otherwise the compiler would keep nothing else in registers
  with_type_of(span.gradient_dtype, [&]<typename G>(std::type_identity<G>) {
    if (span.low_precision == nullptr) {
      BlockUpdate<float, G>(span, c, ring).run();
    } else if (span.low_precision_dtype == DType::kFloat16) {
      BlockUpdate<Float16Bits, G>(span, c, ring).run();
    } else {
      BlockUpdate<BFloat16Bits, G>(span, c, ring).run();
    }
  });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {

HWY_EXPORT(adamw8bit_target);

AdamConstants adamw8bit_constants(const AdamWOptions& options, const UpdateScalars& scalars) {
  AdamConstants c = adam_constants(options, scalars);
  const double bias = std::sqrt(1 - std::pow(options.beta2, static_cast<double>(scalars.step)));
  c.minus_step_size =
      static_cast<float>(-scalars.lr * bias / (1 - std::pow(options.beta1, static_cast<double>(scalars.step))));
  c.eps = std::max(static_cast<float>(options.eps * bias), std::numeric_limits<float>::min());
  c.bias = 1;
  return c;
}

void adamw8bit_update(const UpdateSpan& span, const AdamConstants& constants) {
  ZERO_CHECK(constants.bias == 1, "constants of another rule: bias {}", constants.bias);
  HWY_DYNAMIC_DISPATCH(adamw8bit_target)(span, constants);
}

const Kernel kAdamW8bit = kernel_of<AdamArguments, &update_each<AdamConstants, &adamw8bit_update>>("adamw8bit");

}  // namespace zero
#endif  // HWY_ONCE
