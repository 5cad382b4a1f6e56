// Leaves: the logical micro-batches of a step, and which rank computes each of them.
//
//   const Leaves leaves(8, /*ranks=*/2, Reduce::kEach);
//   leaves.passes();                // 4: micro-batches of each rank
//   leaves.leaf(/*rank=*/1, 3);     // 7
//
// A step's gradient is the sum over its leaves, in one fixed binary tree. A node of n leaves adds its first bit_floor(n
// - 1) leaves to the rest. Ranks only say who computes a part of the tree, so they change no bit. With kEach,
// micro-batch k of rank r is leaf k * ranks + r. The ranks' sum is a part of the tree, and the sums of micro-batches
// meet in a binary counter. With kLast, a rank computes neighbouring leaves: a whole subtree. Subtrees may have
// different sizes; a rank with a smaller one is idle in its last micro-batches. Values; Local.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "zero/plan/units/placement.h"

namespace zero {

// The order of a sum over ranks as a program over a stack. Input i is pushed. Then the two top values are replaced by
// their sum, merges[i] times. {0, 1, 1} is (a + b) + c, and {0, 0, 2} is a + (b + c).
using SumMerges = std::vector<std::uint8_t>;

// Returns the tree over `count` equal parts.
SumMerges balanced_merges(int count);
// Returns the sum of `values` in that tree; 0 without values.
double tree_sum(std::span<const double> values);

// The place of a sum in a binary counter. A counter is a stack of partial sums: sum `round` is written to `position`,
// or added to the partial sum there. Then the top partial sum is added to the one below, `merges` times. After the last
// sum, position 0 has the total.
struct CounterStep {
  int position = 0;
  bool adds = false;
  int merges = 0;
  bool operator==(const CounterStep&) const = default;
};
CounterStep counter_step(int round, int num_rounds);
// Returns the partial sums that exist at once.
int counter_depth(int num_rounds);

class Leaves {
 public:
  // Throws ConfigError under "train.leaves" if the ranks cannot share the tree. kAuto: kEach if possible, else kLast.
  Leaves(int count, int ranks, Reduce reduce);

  int count() const { return count_; }
  int ranks() const { return static_cast<int>(first_.size()); }
  Reduce reduce() const { return reduce_; }            // kEach or kLast
  int passes() const { return passes_; }               // micro-batches of each rank, idle ones included
  const SumMerges& merges() const { return merges_; }  // of the sum over ranks
  // Returns the number of micro-batches of a rank that are not idle: its first ones.
  int computed(int rank) const { return size_[static_cast<std::size_t>(rank)]; }
  // Returns the leaf of a rank's micro-batch; -1: the rank is idle.
  int leaf(int rank, int micro) const;

 private:
  int count_;
  Reduce reduce_;
  int passes_ = 0;
  std::vector<int> first_, size_;  // leaves by rank; kEach: of the first round, and rounds
  SumMerges merges_;
};

}  // namespace zero
