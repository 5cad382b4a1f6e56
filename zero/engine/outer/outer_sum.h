// OuterSum: sums the copies' differences from the anchor in an outer step (zero/optim/outer_step.h).
//
//   OuterSum sum(state, comms, step, ledger, timeline); // of the largest unit, while the outer step lasts
//   sum.begin(u);                                       // zeros
//   ... sum.elements()[i] = anchor - weight ...         // of this rank's update range
//   sum.take_largest(u);                                // top-k only: elements() are then the unsent rest
//   sum.add(u);                                         // elements() are the sums over the copies
//
// Each rank sums its shard with the ranks that hold it in other copies, in the order of the copies, in fp32. This is a
// reduce-scatter and an all-gather over these ranks: 8 (P/S)(R-1)/R bytes. If optimizer states are whole, the ranks of
// a copy then gather the sums of all its shards. So every stage has the same sums, and sends as many bytes between
// copies. With a codec (WireCodecs::outer) each copy's difference is rounded once, and the sum once more by the copy
// that computes it. All copies decode the same sum. Both roundings are stochastic, so no error accumulates. The memory
// is staging in the ledger while the object lives. Collective, except elements().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "zero/base/process/timeline.h"
#include "zero/comm/code/coded_communicator.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/wire/engine_comms.h"
#include "zero/memory/account/charge.h"

namespace zero {

class OuterSum {
 public:
  // Collective. There must be more than one copy, and all must outlive the object. `step`: the run's step, on which a
  // codec's rounding depends.
  OuterSum(const ShardedState& state, const EngineComms& comms, std::int64_t step, Ledger& ledger, Timeline* timeline);

  // Local.
  void begin(int unit);
  float* elements() const;
  // With top-k (WireCodecs::outer_topk), between the differences and add(): takes this copy's largest elements. All
  // copies send these to each other in R-1 messages, and every copy adds them in the order of the copies. The sum is
  // exact, and is not sent. In a whole range, the elements of each shard are taken as by the shard's own rank.
  void take_largest(int unit);
  void add(int unit);

  // Returns the bytes of its memory; 0 if no copies train apart.
  static std::int64_t bytes(const std::vector<Unit>& units, int shard, const Placement& placement);

 private:
  std::size_t message_bytes(int unit) const;
  void add_blocks(int unit);
  void add_messages(int unit);

  const ShardedState& state_;
  const EngineComms& comms_;
  Timeline* timeline_;
  std::unique_ptr<CodedCommunicator> coded_;  // to the other copies; null: no codec
  Allocation exchanged_;                      // a shard, padded to a block for each copy
  Allocation messages_;  // with top-k: this rank's message, then those of all copies, in their order
  Allocation whole_;     // padded range, if that is updated and several ranks hold a copy; else empty
  Charge charge_;
};

}  // namespace zero
