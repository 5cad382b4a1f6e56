// GradientSum: sums a unit's gradient over all ranks of a run; this rank keeps the sum of its shard.
//
//   GradientSum sum(units, copies, GradientSum::blocks_of(units, shard, placement, min_budget), ledger);
//   Work work = sum.begin({.in = gradient, .out = shard}, {.unit = u});      // Collective over the run
//
// If there is one copy of the model, it is a reduce_scatter. With several copies, partial sums pass from copy to copy
// (zero/comm/copies_reduce.h) with the bits of a run without copies. With a codec, each copy sends codes instead. In
// both cases a sum that has begun needs a block until it ends. If the host cannot read the device, the block is in main
// memory: StagedCommunicator has a GradientSum over the bytes that it has copied down, and the reducer's GradientSum
// has no `across`. Works must be waited for in the order in which they began.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/comm/copies_reduce.h"
#include "zero/memory/account/charge.h"
#include "zero/plan/units/placement.h"
#include "zero/plan/units/unit.h"

namespace zero {

class GradientSum {
 public:
  // The ranks that hold the same shard in other copies. `across` is null if there is one copy of the model, or if the
  // communicator of the copy sums over all copies itself. `coded`: `across` sends codes. `most_begun`: sums that may
  // run at once if `across` is null.
  struct Copies {
    Communicator* across = nullptr;
    bool coded = false;
    std::size_t most_begun = std::numeric_limits<std::size_t>::max();
  };
  // Staging blocks for `shard` ranks that hold one copy of the model. `min_budget`: one sum at a time.
  struct Blocks {
    std::size_t count = 0;
    std::int64_t numel = 0;  // of the largest shard, fp32; coded: of a block for each copy
    std::int64_t bytes() const { return static_cast<std::int64_t>(count) * numel * 4; }
  };
  static Blocks blocks_of(const std::vector<Unit>& units, int shard, const Placement& placement, bool min_budget);

  // Charges `blocks` as staging on `tier`, the tier of the memory of `copy`.
  GradientSum(Communicator& copy, Copies copies, Blocks blocks, Ledger& ledger, Tier tier = Tier::kDevice);

  // Collective. At most most_begun() sums may be unfinished.
  [[nodiscard]] Work begin(const ReduceScatter& request, CommTag tag);
  std::size_t most_begun() const { return copies_.across == nullptr ? copies_.most_begun : partial_.size(); }
  // True if a sum goes from copy to copy. Then few other collectives may begin before its wait() (Communicator).
  bool is_chained() const { return copies_.across != nullptr; }

 private:
  struct Block {
    Allocation memory;
    Charge charge;
  };

  Communicator& copy_;
  Copies copies_;
  std::optional<SumOverCopies> chain_;  // empty if there are no copies
  std::vector<Block> partial_;
  std::size_t next_ = 0;  // next block; blocks are used in turn
};

}  // namespace zero
