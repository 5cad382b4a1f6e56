// GradientSum: the sum of a unit's gradient over all ranks of a run, of which this rank keeps its shard.
//
//   GradientSum sum(comms.copy, copies, GradientSum::blocks_of(units, shard, placement, min_budget), ledger);
//   Work work = sum.begin({.in = gradient, .out = shard}, {.unit = u});      // Collective over the run
//
// Where the model is held once, it is a reduce_scatter. Where there are copies of it, partial sums pass from copy to copy
// (zero/comm/copies_reduce.h), to the bits of a run without copies, or what crosses between copies is coded; each sum under
// way then has a block for them: in main memory, beside a device that the host cannot read. There StagedCommunicator sums
// so what has come down, and the reducer's own sum knows of no copies. Works are waited for in the order in which they began.
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
  // The ranks that hold the same shard in other copies; null where the model is held once, or where the communicator of the
  // copy sums over all copies itself. `coded`: what it sends is. `most_begun`: sums that may wait where `across` is null.
  struct Copies {
    Communicator* across = nullptr;
    bool coded = false;
    std::size_t most_begun = std::numeric_limits<std::size_t>::max();
  };
  // Of `shard` ranks that hold the model once. `min_budget`: one sum at a time.
  struct Blocks {
    std::size_t count = 0;
    std::int64_t numel = 0;  // of the largest shard, fp32; coded: of a block for each copy
    std::int64_t bytes() const { return static_cast<std::int64_t>(count) * numel * 4; }
  };
  static Blocks blocks_of(const std::vector<Unit>& units, int shard, const Placement& placement, bool min_budget);

  // Charges `blocks` as staging on `tier`, where the memory of `copy` lies.
  GradientSum(Communicator& copy, Copies copies, Blocks blocks, Ledger& ledger, Tier tier = Tier::kDevice);

  // Collective. At most most_begun() sums may be waiting to be waited for.
  [[nodiscard]] Work begin(const ReduceScatter& request, CommTag tag);
  std::size_t most_begun() const { return copies_.across == nullptr ? copies_.most_begun : partial_.size(); }

 private:
  struct Block {
    Allocation memory;
    Charge charge;
  };

  Communicator& copy_;
  Copies copies_;
  std::optional<SumOverCopies> chain_;  // where there are copies
  std::vector<Block> partial_;
  std::size_t next_ = 0;  // block: they serve in turn
};

}  // namespace zero
