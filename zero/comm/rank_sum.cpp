// Kernels of sum_ranks(). Highway compiles them once per instruction set, and chooses one at run time.
//
// The bits do not depend on the instruction set. Additions over ranks are elementwise, and the square of a float is
// exact in double (24 + 24 bits). Terms have the same elements at any width of a vector, and are added exactly.
#include "zero/comm/rank_sum.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "zero/base/error/check.h"

// Arrays below hold vectors, so types of unknown size are excluded. (Builds with sanitizers exclude more.)
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "zero/comm/rank_sum.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway requires.
#include "zero/base/numbers/element_lanes-inl.h"
#include "zero/base/numbers/exact_lanes-inl.h"

#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace zero::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Loops over a block's groups are unrolled, so the arrays of vectors below are registers.
constexpr int kBlock = kSumBlock;
using Floats = hn::CappedTag<float, 8>;
using Doubles = hn::CappedTag<double, 4>;
constexpr int kGroup = hn::MaxLanes(Floats());  // floats in a vector
constexpr int kGroups = kBlock / kGroup;
constexpr int kWides = kBlock / hn::MaxLanes(Doubles());
constexpr int kTerms = kWides / 4;  // vectors with a block's four terms
// Partial sums of a tree over 2^31 inputs. Trees are balanced, or are checked (sum_ranks()).
constexpr std::size_t kMostPartialSums = 32;

template <typename T>
HWY_INLINE hn::Vec<Floats> load(const std::byte* data, std::int64_t i) {
  return load_lanes(Floats(), reinterpret_cast<const T*>(data) + i);
}

// Stores `value`, and returns the stored value as float.
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

// Destination of the result, and its type.
enum class Out { kNowhere, kFloat32, kFloat32Stream, kFloat32Accumulate, kBFloat16, kFloat16 };

template <Out out>
using OutType = std::conditional_t<out == Out::kBFloat16, BFloat16Bits,
                                   std::conditional_t<out == Out::kFloat16, Float16Bits, float>>;

HWY_INLINE void widen(const hn::Vec<Floats> (&values)[kGroups], hn::Vec<Doubles> (&wide)[kWides]) {
#if HWY_TARGET == HWY_SCALAR
  for (int g = 0; g < kGroups; ++g) wide[g] = hn::PromoteTo(Doubles(), values[g]);
#else
  const hn::Half<Floats> half;
  HWY_UNROLL(4)
  for (int g = 0; g < kGroups; ++g) {
    wide[2 * g] = hn::PromoteTo(Doubles(), hn::LowerHalf(half, values[g]));
    wide[2 * g + 1] = hn::PromoteTo(Doubles(), hn::UpperHalf(half, values[g]));
  }
#endif
}

// The sum of squares of consecutive blocks.
template <int kLevels>
struct Squares {
  ExactLanes<Doubles, kLevels> lanes;

  HWY_INLINE void add(const hn::Vec<Floats> (&values)[kGroups]) {
    hn::Vec<Doubles> wide[kWides], pairs[kWides / 2];
    widen(values, wide);
    HWY_UNROLL(8)
    for (int w = 0; w < kWides / 2; ++w) {
      const auto high = wide[w + kWides / 2];
      pairs[w] = hn::MulAdd(high, high, hn::Mul(wide[w], wide[w]));  // fused or not: the squares are exact
    }
    HWY_UNROLL(4)
    for (int t = 0; t < kTerms; ++t) lanes.add(hn::Add(pairs[t], pairs[t + kTerms]));
  }
};
// Most elements of such a sum, because a lane may add only so many terms.
constexpr std::int64_t kMostElements = kBlock * ExactLanes<Doubles, 2>::kMostAdds / kTerms;

// Adds the inputs in the order of a tree: a program over a stack of partial sums.
template <typename In>
void add_tree(const RankSum& request, std::int64_t i, hn::Vec<Floats> (&sum)[kGroups]) {
  alignas(64) float partial[kMostPartialSums][kBlock];
  std::size_t height = 0;
  for (std::size_t r = 0; r < request.in.size(); ++r) {
    for (int g = 0; g < kGroups; ++g) sum[g] = load<In>(request.in[r], i + g * kGroup);
    for (int n = request.merges[r]; n > 0; --n) {
      --height;
      for (int g = 0; g < kGroups; ++g) sum[g] = hn::Add(hn::Load(Floats(), partial[height] + g * kGroup), sum[g]);
    }
    for (int g = 0; g < kGroups; ++g) hn::Store(sum[g], Floats(), partial[height] + g * kGroup);
    ++height;
  }
}

template <typename In>
float add_tree_of_one(const RankSum& request, std::int64_t i) {
  float partial[kMostPartialSums];
  std::size_t height = 0;
  for (std::size_t r = 0; r < request.in.size(); ++r) {
    float sum = load_one<In>(request.in[r], i);
    for (int n = request.merges[r]; n > 0; --n) sum = partial[--height] + sum;
    partial[height++] = sum;
  }
  return partial[0];
}

// Sums sixteen elements from i on; `sum` gets the stored values.
template <typename In, Out out>
HWY_INLINE void sum_sixteen(const RankSum& request, std::int64_t i, hn::Vec<Floats> (&sum)[kGroups]) {
  const std::byte* const* in = request.in.data();
  const std::size_t num_ranks = request.in.size();
  if (request.merges.empty()) {
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
  } else {
    add_tree<In>(request, i, sum);
  }
  HWY_UNROLL(16)
  for (int g = 0; g < kGroups; ++g) {
    if constexpr (out == Out::kFloat32Accumulate) {
      sum[g] = hn::Add(load<float>(request.out, i + g * kGroup), sum[g]);
    }
    if constexpr (out != Out::kNowhere) {
      sum[g] = store<OutType<out>, out == Out::kFloat32Stream>(sum[g], request.out, i + g * kGroup);
    }
  }
}

template <typename In, Out out>
float sum_one(const RankSum& request, std::int64_t i) {
  float sum = request.merges.empty() ? load_one<In>(request.in[0], i) : add_tree_of_one<In>(request, i);
  if (request.onto != nullptr) sum = request.onto[i] + sum;
  for (std::size_t r = 1; r < request.in.size() && request.merges.empty(); ++r) sum += load_one<In>(request.in[r], i);
  if constexpr (out == Out::kFloat32Accumulate) sum = load_one<float>(request.out, i) + sum;
  if constexpr (out != Out::kNowhere) sum = store_one<OutType<out>>(sum, request.out, i);
  return sum;
}

// Sums elements [begin, end), and passes each block's values to `use`.
template <typename In, Out out, typename Use>
HWY_INLINE void sum_elements(const RankSum& request, std::int64_t begin, std::int64_t end, Use use) {
  hn::Vec<Floats> sum[kGroups];
  std::int64_t i = begin;
  for (; i + kBlock <= end; i += kBlock) {
    sum_sixteen<In, out>(request, i, sum);
    use(sum);
  }
  if (i == end) return;
  alignas(64) float rest[kBlock] = {};
  for (std::int64_t at = i; at < end; ++at) rest[at - i] = sum_one<In, out>(request, at);
  for (int g = 0; g < kGroups; ++g) sum[g] = hn::Load(Floats(), rest + g * kGroup);
  use(sum);
}

// Exponents of a sum of squares: the first, the lowest that is used, and the levels of a second attempt. 2^-298 is the
// square of the smallest float.
constexpr int kFirstExponent = 0, kLeastExponent = -200, kManyLevels = 4;

template <typename In, Out out, int kLevels>
ExactLanes<Doubles, kLevels> squares_of(const RankSum& request, std::int64_t begin, std::int64_t end, int exponent) {
  Squares<kLevels> squares{ExactLanes<Doubles, kLevels>(exponent)};
  sum_elements<In, out>(request, begin, end, [&](const hn::Vec<Floats>(&sum)[kGroups]) { squares.add(sum); });
  return squares.lanes;
}

// Adds terms one by one, whatever their values.
template <typename T>
void add_each_term(const RankSum& result, std::int64_t begin, std::int64_t end, ExactSum& sum) {
  sum_elements<T, Out::kNowhere>(result, begin, end, [&](const hn::Vec<Floats>(&values)[kGroups]) {
    alignas(64) float x[kBlock];
    for (int g = 0; g < kGroups; ++g) hn::Store(values[g], Floats(), x + g * kGroup);
    const auto square = [&x](int i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); };
    for (int i = 0; i < 4; ++i) sum.add((square(i) + square(i + 8)) + (square(i + 4) + square(i + 12)));
  });
}

template <typename T>
std::int64_t count_non_finite(const std::byte* data, std::int64_t begin, std::int64_t end) {
  std::int64_t count = 0;
  for (std::int64_t i = begin; i < end; ++i) count += !std::isfinite(load_one<T>(data, i));
  return count;
}

// Adds a result whose terms were not all in the window. Squares of finite floats cannot overflow a double, so a finite
// sum has only finite elements.
template <typename T>
void add_result(const RankSum& result, std::int64_t begin, std::int64_t end, double estimate, int& exponent,
                ReduceStats& stats) {
  if (std::isfinite(estimate)) {
    constexpr int kRoom = 2;  // binades of headroom for the next blocks
    exponent = std::max(estimate > 0 ? std::ilogb(estimate) + 1 + kRoom : kLeastExponent, kLeastExponent);
    if (squares_of<T, Out::kNowhere, kManyLevels>(result, begin, end, exponent).add_to(stats.sum_squares)) return;
  } else {
    stats.num_non_finite += count_non_finite<T>(result.in[0], begin, end);
  }
  add_each_term<T>(result, begin, end, stats.sum_squares);
}

template <typename In, Out out>
void sum_blocks(const RankSum& request, ReduceStats* stats) {
  int exponent = kFirstExponent;
  for (std::int64_t begin = 0; begin < request.numel; begin += kMostElements) {
    const std::int64_t end = std::min(begin + kMostElements, request.numel);
    if (stats == nullptr) {
      sum_elements<In, out>(request, begin, end, [](const hn::Vec<Floats>(&)[kGroups]) {});
      continue;
    }
    const auto squares = squares_of<In, out, 2>(request, begin, end, exponent);
    if (squares.add_to(stats->sum_squares)) continue;
    constexpr bool kStored = out != Out::kNowhere;
    const std::byte* const made[] = {kStored ? request.out : request.in[0]};
    using Final = std::conditional_t<kStored, OutType<out>, In>;
    add_result<Final>({.in = made}, begin, end, squares.estimate(), exponent, *stats);
  }
  if constexpr (out == Out::kFloat32Stream) hwy::FlushStream();
}

template <typename In>
void sum_into(const RankSum& request, bool stream, ReduceStats* stats) {
  if (request.out == nullptr) return sum_blocks<In, Out::kNowhere>(request, stats);
  if (request.out_dtype == DType::kBFloat16) return sum_blocks<In, Out::kBFloat16>(request, stats);
  if (request.out_dtype == DType::kFloat16) return sum_blocks<In, Out::kFloat16>(request, stats);
  if (request.accumulate) return sum_blocks<In, Out::kFloat32Accumulate>(request, stats);
  if (stream) return sum_blocks<In, Out::kFloat32Stream>(request, stats);
  sum_blocks<In, Out::kFloat32>(request, stats);
}

void sum_all(const RankSum& request, bool stream, ReduceStats* stats) {
  with_type_of(request.dtype, [&]<typename In>(std::type_identity<In>) { sum_into<In>(request, stream, stats); });
}

}  // namespace zero::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zero {
HWY_EXPORT(sum_all);

namespace {

// From this size on, a cached result would evict more than a later read of it would gain.
constexpr std::int64_t kStreamBytes = std::int64_t{4} << 20;

void check_tree(const RankSum& request) {
  if (request.merges.empty()) return;
  constexpr int kMost = 32;  // kMostPartialSums
  int height = 0;            // of the stack of partial sums
  bool is_tree = request.merges.size() == request.in.size() && request.onto == nullptr;
  for (const std::uint8_t sums : request.merges) {
    is_tree = is_tree && height < kMost && static_cast<int>(sums) <= height;
    height += 1 - static_cast<int>(sums);
  }
  ZERO_CHECK(is_tree && height == 1, "{} inputs are summed in a tree of {}", request.in.size(), request.merges.size());
}

bool may_stream(const RankSum& request) {
  if (request.numel * 4 < kStreamBytes || reinterpret_cast<std::uintptr_t>(request.out) % 64 != 0) return false;
  if (reinterpret_cast<const std::byte*>(request.onto) == request.out) return false;
  for (const std::byte* in : request.in) {
    if (in == request.out) return false;  // already in cache
  }
  return true;
}

}  // namespace

void sum_ranks(const RankSum& request, ReduceStats* stats) {
  ZERO_CHECK(!request.in.empty(), "a sum over no ranks");
  ZERO_CHECK(!request.accumulate || request.out_dtype == DType::kFloat32, "only fp32 accumulates");
  check_tree(request);
  RankSum plain = request;
  if (request.in.size() == 1) plain.merges = {};
  // The sum over one rank, in place, is already done.
  if (request.in.size() == 1 && request.in[0] == request.out && request.dtype == request.out_dtype &&
      !request.accumulate && request.onto == nullptr) {
    if (stats == nullptr) return;
    plain.out = nullptr;
  }
  HWY_DYNAMIC_DISPATCH(sum_all)(plain, may_stream(plain), stats);
}

namespace {

void rank_sum_host(const RankSumArguments& a) {
  const RankSum request{.in = {a.in.data(), static_cast<std::size_t>(a.num_in)},
                        .dtype = a.dtype,
                        .out = a.out,
                        .out_dtype = a.out_dtype,
                        .numel = a.numel,
                        .accumulate = a.accumulate,
                        .onto = a.onto};
  ReduceStats stats;
  sum_ranks(request, a.stats != nullptr ? &stats : nullptr);
  if (a.stats == nullptr) return;
  stats.sum_squares.add_to(a.stats->sum_squares);
  a.stats->num_non_finite += static_cast<std::uint64_t>(stats.num_non_finite);
}

}  // namespace

const Kernel kRankSum = kernel_of<RankSumArguments, &rank_sum_host>("rank_sum");

ReduceStats stats_of(const std::byte* data, DType dtype, std::int64_t numel) {
  ReduceStats stats;
  const std::byte* const in[] = {data};
  HWY_DYNAMIC_DISPATCH(sum_all)({.in = in, .dtype = dtype, .numel = numel}, false, &stats);
  return stats;
}

}  // namespace zero
#endif  // HWY_ONCE
