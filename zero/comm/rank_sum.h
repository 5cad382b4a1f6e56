// The one sum over ranks: out = in_0 + in_1 + ... in rank order, fp32, with statistics gathered while it is in cache.
//
// The sum of squares is taken over blocks of kStatsBlock elements counted from the start of `out`: within a block 16
// fp32-to-double lanes (lane = index mod 16) are summed and folded in a fixed tree, and the blocks' sums are folded in
// a fixed binary tree. It depends on the values and their number alone. A caller that works in tiles keeps to whole
// blocks and folds with StatsTree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "zero/base/dtype.h"
#include "zero/comm/communicator.h"

namespace zero {

constexpr std::int64_t kStatsBlock = 4096;

// Collects per-block results in order; total() folds them pairwise. Blocks are added in index order.
class StatsTree {
 public:
  void add_block(double sum_squares, std::int64_t num_non_finite);
  ReduceStats total() const;

 private:
  std::vector<double> blocks_;
  std::int64_t num_non_finite_ = 0;
};

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

// Local. `tree`: null when the statistics are not wanted.
void sum_ranks(const RankSum& request, StatsTree* tree);

// Local. Statistics of values that are already final (a world of one, a local accumulator).
ReduceStats stats_of(const std::byte* data, DType dtype, std::int64_t numel);

}  // namespace zero
