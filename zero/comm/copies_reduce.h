// Sums over all copies of a model: the reduce-scatter of a mesh of ranks (zero/plan/units/mesh.h).
//
//   SumOverCopies sums(copy, across);
//   Work sum = sums.begin({.in = gradient, .out = shard}, partial, {.unit = 3});
//
// `copy` is the group of this rank's copy: neighbouring ranks. `across` is the group of the ranks that own the same
// block in all copies; a copy's number is its rank there. Rank k of each copy gets block k of `in`, summed over all
// ranks of the run in rank order and fp32. The bits are those of a reduce_scatter of the world with the same blocks.
// Partial sums are sent from copy to copy in that order, and the total is sent back.
//
// A rank sends (S-1)/S of `in` within its copy of S ranks, and one fp32 block to each neighbouring copy. Blocks are
// sent in pieces. While a copy adds its ranks to one piece, it receives the next piece from the previous copy. From the
// next copy it receives totals of earlier pieces. So both directions of all links are busy. With R copies, a sum takes
// the time of its block, plus that of 2 (R - 1) pieces until the chain is full. If the next sum has begun, its first
// pieces follow the last pieces of this sum.
#pragma once

#include <deque>
#include <span>

#include "zero/comm/communicator.h"

namespace zero {

class SumOverCopies {
 public:
  // Both communicators must outlive this object, which must outlive its Works.
  SumOverCopies(Communicator& copy, Communicator& across);

  // Collective over both groups. `partial`: one fp32 block of memory, reserved for this sum until wait() returns. Works
  // must be waited for in the order in which they began.
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
  int most_ahead_;  // pieces that this copy may have passed up without having received their totals
  int ahead_ = 0;   // number of such pieces
};

// Sums over all copies if `across` codes its bytes (zero/comm/code/coded_communicator.h), because the chain would round
// partial sums again in every copy. Each copy sums its own ranks. Copy c then sums block c of the shard, in the order
// of the copies. Finally all copies gather the blocks, so all have the same values. A rank sends 2 (R-1)/R of a shard.
// Each element is rounded once by its copy, and once more as a sum. `blocks`: an fp32 block for each copy, of equal
// length, which together hold the shard; reserved for this call until wait() returns.
[[nodiscard]] Work reduce_in_blocks_over_copies(Communicator& copy, Communicator& across, const ReduceScatter& request,
                                                std::span<float> blocks, CommTag tag);

}  // namespace zero
