// sum_ranks(): the one sum over ranks: out = in_0 + in_1 + ... in rank order, fp32, with statistics gathered while it is
// in cache.
//
// The sum of squares is exact over terms of 4 elements. Of each kSumBlock = 16 elements, counted from the start of `out`
// (zeros follow the last), the four terms are (x[i]^2 + x[i + 8]^2) + (x[i + 4]^2 + x[i + 12]^2), in double. The sum
// depends on the values and their places modulo 16 alone. A caller that works in tiles begins each at a multiple of
// kSumBlock, and adds into the same statistics.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "zero/base/dtype.h"
#include "zero/base/sum_limbs.h"
#include "zero/comm/communicator.h"
#include "zero/device/kernel.h"

namespace zero {

// Tiles are of multiples of this many elements, whose statistics are made while they are in cache.
constexpr std::int64_t kStatsBlock = 4096;

struct RankSum {
  std::span<const std::byte* const> in;  // one pointer a rank, in rank order
  DType dtype = DType::kFloat32;         // of every input
  std::byte* out = nullptr;              // may alias one of the inputs
  DType out_dtype = DType::kFloat32;
  std::int64_t numel = 0;
  bool accumulate = false;  // out must be fp32: out += sum
  // The sum begins with it: ((onto + in_0) + in_1) + ...; null: with in_0. May be `out`.
  const float* onto = nullptr;
};

// Local. Adds the statistics of the result to `stats`; null: they are not wanted.
void sum_ranks(const RankSum& request, ReduceStats* stats);

// Local. Statistics of values that are already final (a world of one, a local accumulator).
ReduceStats stats_of(const std::byte* data, DType dtype, std::int64_t numel);

// The same as a kernel of a device. Statistics are added to limbs in its memory, which add_to() takes once they are on the
// host.
struct StatsLimbs {
  SumLimbs sum_squares;
  std::uint64_t num_non_finite = 0;
  void add_to(ReduceStats& stats) const {
    stats.sum_squares.add(sum_squares);
    stats.num_non_finite += static_cast<std::int64_t>(num_non_finite);
  }
};

// sum_ranks(). `numel` 0 and `out` null as there. More ranks than kMost: a first sum of kMost in fp32, and others with
// it as `onto`: additions are the same ones, in the same order.
struct RankSumArguments {
  static constexpr std::size_t kMost = 64;
  std::array<const std::byte*, kMost> in{};  // in rank order
  std::int32_t num_in = 0;
  DType dtype = DType::kFloat32;
  DType out_dtype = DType::kFloat32;
  bool accumulate = false;
  std::byte* out = nullptr;
  std::int64_t numel = 0;
  const float* onto = nullptr;
  StatsLimbs* stats = nullptr;  // null: they are not wanted
};
extern const Kernel kRankSum;

}  // namespace zero
