// The one sum over ranks: out = in_0 + in_1 + ... in rank order, fp32, with statistics gathered while it is in cache.
//
// The sum of squares is exact over terms of 4 elements. Of each kSumBlock = 16 elements, counted from the start of `out`
// (zeros follow the last), the four terms are (x[i]^2 + x[i + 8]^2) + (x[i + 4]^2 + x[i + 12]^2), in double. The sum
// depends on the values and their places modulo 16 alone. A caller that works in tiles begins each at a multiple of
// kSumBlock, and adds into the same statistics.
#pragma once

#include <cstdint>
#include <span>

#include "zero/base/dtype.h"
#include "zero/comm/communicator.h"

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

}  // namespace zero
