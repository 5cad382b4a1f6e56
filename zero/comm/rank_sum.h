// sum_ranks(): the sum over ranks: out = in_0 + in_1 + ... in fp32, in rank order or in a tree over ranks. All
// transports call it; only NCCL (zero.reduce = "nccl") and decoders add on their own. While the result is in cache, it
// also computes the sum of squares and the number of non-finite elements (ReduceStats).
//
//   sum_ranks({.in = inputs, .out = out, .numel = numel}, &stats);     // one input for each rank
//
// The sum of squares is exact over terms of 4 elements. From its start, `out` is divided into blocks of kSumBlock = 16
// elements; zeros follow the last element. A block's four terms are (x[i]^2 + x[i + 8]^2) + (x[i + 4]^2 + x[i + 12]^2),
// in double. So the sum depends only on the values and their positions modulo 16. A caller that works in tiles begins
// each tile at a multiple of kSumBlock, and adds into the same statistics.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "zero/base/numbers/dtype.h"
#include "zero/base/numbers/sum_limbs.h"
#include "zero/comm/communicator.h"
#include "zero/device/kernel.h"

namespace zero {

// Tiles have a multiple of this many elements, so their statistics are computed in cache.
constexpr std::int64_t kStatsBlock = 4096;

struct RankSum {
  std::span<const std::byte* const> in;  // one pointer for each rank, in rank order
  DType dtype = DType::kFloat32;         // of every input
  std::byte* out = nullptr;              // may alias one of the inputs
  DType out_dtype = DType::kFloat32;
  std::int64_t numel = 0;
  bool accumulate = false;  // a later micro-batch: out += (in_0 + in_1 + ...); `out` must be fp32
  // A sum that earlier ranks or copies began: ((onto + in_0) + in_1) + ...; null: it begins with in_0. May be `out`.
  const float* onto = nullptr;
  // Order of the additions as a tree over the inputs (zero/plan/units/leaves.h); empty: rank order. Not with `onto`.
  std::span<const std::uint8_t> merges{};
};

// Local. Sums, and adds the statistics of the result to `stats`; null: no statistics.
void sum_ranks(const RankSum& request, ReduceStats* stats);

// Local. Returns the statistics of values that are already final (a world of one, a local accumulator).
ReduceStats stats_of(const std::byte* data, DType dtype, std::int64_t numel);

// Statistics of the sum on a device. Its kernel adds to limbs in the device's memory; add_to() takes them once they are
// on the host.
struct StatsLimbs {
  SumLimbs sum_squares;
  std::uint64_t num_non_finite = 0;
  void add_to(ReduceStats& stats) const {
    stats.sum_squares.add(sum_squares);
    stats.num_non_finite += static_cast<std::int64_t>(num_non_finite);
  }
};

// Arguments of sum_ranks() as a device kernel. `out` null: only statistics. For more ranks than kMost, one sum of kMost
// ranks is made in fp32, and is `onto` of the next. The additions and their order stay the same.
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
  StatsLimbs* stats = nullptr;  // null: no statistics
};
extern const Kernel kRankSum;

}  // namespace zero
