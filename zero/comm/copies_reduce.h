// Sums over all copies of a model: the reduce-scatter of a mesh of ranks (zero/plan/mesh.h).
//
//   SumOverCopies sums(copy, across);
//   Work sum = sums.begin({.in = gradient, .out = shard}, partial, {.unit = 3});
//
// `copy` is the group of this rank's copy, neighbouring ranks; `across` is the group of the ranks that own the same block
// in all copies, this copy's number being its rank there. Block k of `in` is for rank k of each copy; each gets the sum
// over all ranks of the run, in the order of ranks, to the bit what a reduce_scatter of the world with the same blocks
// gives: in[0] + in[1] + ... in fp32. Partial sums go from copy to copy in that order, and the total comes back.
//
// A rank sends its copy (S-1)/S of `in`, and the copies beside its own one fp32 block each. A block travels in pieces: while a copy
// adds its ranks to one, the next comes from below and the totals of earlier ones from above, so that both directions of all
// links are in use at once. A sum takes the time of its block, and of 2 (R - 1) pieces that fill the chain; where another
// sum has begun, its first pieces follow the last ones.
#pragma once

#include <deque>
#include <span>

#include "zero/comm/communicator.h"

namespace zero {

class SumOverCopies {
 public:
  // Both outlive it; it outlives its Works.
  SumOverCopies(Communicator& copy, Communicator& across);

  // Collective over both groups. `partial`: one fp32 block of memory, which stays this sum's until wait() returns. Works
  // are waited for in the order in which they began.
  [[nodiscard]] Work begin(const ReduceScatter& request, std::span<float> partial, CommTag tag);

 private:
  class Chained;

  bool is_first() const { return across_.rank() == 0; }
  bool is_last() const { return across_.rank() + 1 == across_.world(); }
  void look_ahead();
  bool pass_up();
  void wait(Chained& sum);

  Communicator& copy_;
  Communicator& across_;
  std::deque<Chained*> under_way_;
  int most_ahead_;  // pieces that this copy may have passed up, and whose totals it has not waited for
  int ahead_ = 0;   // of these, as many there are
};

// The same where `across` codes what crosses (zero/comm/coded_communicator.h), so that partial sums would be rounded again
// and again on their way. Each copy sums its own ranks; block c of the shard is then summed by copy c, in the order of the
// copies, and all copies gather the blocks, which gives all of them the same values: 2 (R-1)/R of a shard, each element
// rounded once by its copy and once more as a sum. `blocks`: an fp32 block for each copy, of equal length, which together
// hold the shard; this call's until wait() returns.
[[nodiscard]] Work reduce_in_blocks_over_copies(Communicator& copy, Communicator& across, const ReduceScatter& request,
                                                std::span<float> blocks, CommTag tag);

}  // namespace zero
