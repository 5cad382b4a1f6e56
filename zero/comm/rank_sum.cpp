// The kernels of sum_ranks, compiled once per instruction set by Highway and chosen at run time.
//
// Bits do not depend on the instruction set: additions of ranks are elementwise, the square of a float is exact in
// double (24 + 24 bits), and each of the 16 lanes adds its squares in index order whatever the width of a vector.
#include "zero/comm/rank_sum.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "zero/base/check.h"

// Vectors live in arrays below, which types of unknown size cannot. (Builds with sanitizers leave out these and more.)
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/comm/rank_sum.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "zero/base/element_lanes-inl.h"

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kLanes = 16;
using Doubles = hn::CappedTag<double, kLanes>;
// As many floats as a vector holds doubles, so that one group of floats feeds one vector of lanes.
using Floats = hn::Rebind<float, Doubles>;
constexpr int kGroup = hn::MaxLanes(Doubles());  // floats in a group
constexpr int kGroups = kLanes / kGroup;         // groups in 16 lanes; loops over them are unrolled so that
                                                 // the arrays of vectors below are registers

template <typename T>
HWY_INLINE hn::Vec<Floats> load(const std::byte* data, std::int64_t i) {
  return load_lanes(Floats(), reinterpret_cast<const T*>(data) + i);
}

// Stores and returns what was stored, as float.
template <typename T, bool stream>
HWY_INLINE hn::Vec<Floats> store(hn::Vec<Floats> value, std::byte* data, std::int64_t i) {
  if constexpr (stream) {
    hn::Stream(value, Floats(), reinterpret_cast<float*>(data) + i);
    return value;
  } else {
    return store_lanes(Floats(), value, reinterpret_cast<T*>(data) + i);
  }
}

template <typename T>
HWY_INLINE float load_one(const std::byte* data, std::int64_t i) {
  return to_float(reinterpret_cast<const T*>(data)[i]);
}

template <typename T>
HWY_INLINE float store_one(float value, std::byte* data, std::int64_t i) {
  return to_float(reinterpret_cast<T*>(data)[i] = rounded_to<T>(value));
}

// Where the result goes.
enum class Out { kNowhere, kFloat32, kFloat32Stream, kFloat32Accumulate, kBFloat16, kFloat16 };

template <Out out>
using OutType = std::conditional_t<out == Out::kBFloat16, BFloat16Bits,
                                   std::conditional_t<out == Out::kFloat16, Float16Bits, float>>;

// Elements [begin, end), at most one block; returns the sum of squares of what was stored.
template <typename In, Out out, bool with_stats>
double sum_block(const RankSum& request, std::int64_t begin, std::int64_t end) {
  const Doubles doubles;
  hn::Vec<Doubles> squares[kGroups];
  HWY_UNROLL(16)
  for (int g = 0; g < kGroups; ++g) squares[g] = hn::Zero(doubles);
  const std::byte* const* in = request.in.data();
  const std::size_t num_ranks = request.in.size();

  std::int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    hn::Vec<Floats> sum[kGroups];
    HWY_UNROLL(16)
    for (int g = 0; g < kGroups; ++g) sum[g] = load<In>(in[0], i + g * kGroup);
    if (request.onto != nullptr) {
      HWY_UNROLL(16)
      for (int g = 0; g < kGroups; ++g) {
        sum[g] = hn::Add(load<float>(reinterpret_cast<const std::byte*>(request.onto), i + g * kGroup), sum[g]);
      }
    }
    for (std::size_t r = 1; r < num_ranks; ++r) {
      const std::byte* data = in[r];
      HWY_UNROLL(16)
      for (int g = 0; g < kGroups; ++g) sum[g] = hn::Add(sum[g], load<In>(data, i + g * kGroup));
    }
    HWY_UNROLL(16)
    for (int g = 0; g < kGroups; ++g) {
      if constexpr (out == Out::kFloat32Accumulate) {
        sum[g] = hn::Add(load<float>(request.out, i + g * kGroup), sum[g]);
      }
      if constexpr (out != Out::kNowhere) {
        sum[g] = store<OutType<out>, out == Out::kFloat32Stream>(sum[g], request.out, i + g * kGroup);
      }
      if constexpr (with_stats) {
        const auto wide = hn::PromoteTo(doubles, sum[g]);
        squares[g] = hn::MulAdd(wide, wide, squares[g]);
      }
    }
  }

  alignas(64) double lanes[kLanes];
  HWY_UNROLL(16)
  for (int g = 0; g < kGroups; ++g) hn::Store(squares[g], doubles, lanes + g * kGroup);
  for (; i < end; ++i) {
    float sum = load_one<In>(in[0], i);
    if (request.onto != nullptr) sum = request.onto[i] + sum;
    for (std::size_t r = 1; r < num_ranks; ++r) sum += load_one<In>(in[r], i);
    if constexpr (out == Out::kFloat32Accumulate) sum = load_one<float>(request.out, i) + sum;
    if constexpr (out != Out::kNowhere) sum = store_one<OutType<out>>(sum, request.out, i);
    lanes[(i - begin) % kLanes] += static_cast<double>(sum) * static_cast<double>(sum);
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// Squares of finite floats cannot overflow a double: a block without inf and NaN has a finite sum, so the count costs
// nothing in all the others.
template <typename T>
std::int64_t count_non_finite(const std::byte* data, std::int64_t begin, std::int64_t end) {
  std::int64_t count = 0;
  for (std::int64_t i = begin; i < end; ++i) count += !std::isfinite(load_one<T>(data, i));
  return count;
}

template <typename In, Out out>
void sum_blocks(const RankSum& request, StatsTree* tree) {
  for (std::int64_t begin = 0; begin < request.numel; begin += kStatsBlock) {
    const std::int64_t end = std::min(begin + kStatsBlock, request.numel);
    if (tree == nullptr) {
      sum_block<In, out, false>(request, begin, end);
      continue;
    }
    const double squares = sum_block<In, out, true>(request, begin, end);
    std::int64_t non_finite = 0;
    if (!std::isfinite(squares)) {
      constexpr bool kStored = out != Out::kNowhere;
      using Final = std::conditional_t<kStored, OutType<out>, In>;
      non_finite = count_non_finite<Final>(kStored ? request.out : request.in[0], begin, end);
    }
    tree->add_block(squares, non_finite);
  }
  if constexpr (out == Out::kFloat32Stream) hwy::FlushStream();
}

template <typename In>
void sum_into(const RankSum& request, bool stream, StatsTree* tree) {
  if (request.out == nullptr) return sum_blocks<In, Out::kNowhere>(request, tree);
  if (request.out_dtype == DType::kBFloat16) return sum_blocks<In, Out::kBFloat16>(request, tree);
  if (request.out_dtype == DType::kFloat16) return sum_blocks<In, Out::kFloat16>(request, tree);
  if (request.accumulate) return sum_blocks<In, Out::kFloat32Accumulate>(request, tree);
  if (stream) return sum_blocks<In, Out::kFloat32Stream>(request, tree);
  sum_blocks<In, Out::kFloat32>(request, tree);
}

void sum_all(const RankSum& request, bool stream, StatsTree* tree) {
  with_type_of(request.dtype, [&]<typename In>(std::type_identity<In>) { sum_into<In>(request, stream, tree); });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
HWY_EXPORT(sum_all);

namespace {

// From this size on the result would push more out of the caches than it would find there.
constexpr std::int64_t kStreamBytes = std::int64_t{4} << 20;

bool may_stream(const RankSum& request) {
  if (request.numel * 4 < kStreamBytes || reinterpret_cast<std::uintptr_t>(request.out) % 64 != 0) return false;
  if (reinterpret_cast<const std::byte*>(request.onto) == request.out) return false;
  for (const std::byte* in : request.in) {
    if (in == request.out) return false;  // its lines are in cache already
  }
  return true;
}

}  // namespace

void StatsTree::add_block(double sum_squares, std::int64_t num_non_finite) {
  blocks_.push_back(sum_squares);
  num_non_finite_ += num_non_finite;
}

ReduceStats StatsTree::total() const {
  std::vector<double> level = blocks_;
  while (level.size() > 1) {
    const std::size_t pairs = level.size() / 2;
    for (std::size_t i = 0; i < pairs; ++i) level[i] = level[2 * i] + level[2 * i + 1];
    if (level.size() % 2 == 1) level[pairs] = level.back();
    level.resize((level.size() + 1) / 2);
  }
  return {level.empty() ? 0.0 : level[0], num_non_finite_};
}

void sum_ranks(const RankSum& request, StatsTree* tree) {
  ZERO_CHECK(!request.in.empty(), "a sum over no ranks");
  ZERO_CHECK(!request.accumulate || request.out_dtype == DType::kFloat32, "only fp32 accumulates");
  RankSum plain = request;
  // The sum over one rank in its own place is done already.
  if (request.in.size() == 1 && request.in[0] == request.out && request.dtype == request.out_dtype &&
      !request.accumulate && request.onto == nullptr) {
    if (tree == nullptr) return;
    plain.out = nullptr;
  }
  HWY_DYNAMIC_DISPATCH(sum_all)(plain, may_stream(plain), tree);
}

ReduceStats stats_of(const std::byte* data, DType dtype, std::int64_t numel) {
  StatsTree tree;
  const std::byte* const in[] = {data};
  HWY_DYNAMIC_DISPATCH(sum_all)({.in = in, .dtype = dtype, .numel = numel}, false, &tree);
  return tree.total();
}

}  // namespace zero
#endif  // HWY_ONCE
