// OuterSum: the sum over the copies of a model of what each has come to, in an outer step (zero/optim/outer_step.h).
//
//   OuterSum sum(state, comms, step, ledger, timeline); // of the largest unit, while the outer step lasts
//   sum.begin(u);                                       // zeros
//   ... sum.elements()[i] = anchor - weight ...         // of this rank's update range
//   sum.add(u);                                         // elements() are the sums over the copies
//
// Each rank sums its shard with the ranks that hold it in other copies, in the order of the copies, in fp32: a
// reduce-scatter over them and an all-gather, 8 (P/S)(R-1)/R bytes. Where the optimizer's states are whole, the sums of a
// copy's shards are then gathered within it, so that every stage has the same sums and sends as much between copies.
//
// With a codec (WireCodecs::outer) each copy's difference is rounded once, and the sum once more by the copy that makes it:
// all copies decode the same sum. Both roundings are stochastic, so that none accumulates.
//
// With top-k (WireCodecs::outer_topk) each copy takes the largest elements out of its differences, and all copies send these to
// each other: messages, which every copy adds in the order of the copies. The sum is exact, and no sum is sent.
//
//   sum.take_largest(u);                                // elements() are what this copy does not send
//
// The memory is staging, in the ledger from construction to destruction. Collective, all of it, but for elements().
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
  // There is more than one copy. All outlive it.
  // Collective. `step`: number of the run's step; a codec's rounding depends on it.
  OuterSum(const ShardedState& state, const EngineComms& comms, std::int64_t step, Ledger& ledger, Timeline* timeline);

  // Local.
  void begin(int unit);
  float* elements() const;
  // With top-k, between the differences and add(). Of a whole range each shard is taken from as its own rank does.
  void take_largest(int unit);
  void add(int unit);

  // Bytes that it takes; 0 where no copies train apart.
  static std::int64_t bytes(const std::vector<Unit>& units, int shard, const Placement& placement);

 private:
  std::size_t message_bytes(int unit) const;
  void add_blocks(int unit);
  void add_messages(int unit);

  const ShardedState& state_;
  const EngineComms& comms_;
  Timeline* timeline_;
  std::unique_ptr<CodedCommunicator> coded_;  // to the other copies; null without a codec
  Allocation exchanged_;                      // of a shard, padded to a block for each copy
  Allocation messages_;                       // with top-k: this rank's, then those of all copies, in their order
  Allocation whole_;  // of the padded range, where that is updated and several ranks hold a copy; else empty
  Charge charge_;
};

}  // namespace zero
