// Reducer: takes a rank's gradients, and computes their sum over all ranks for this rank's shards.
//
//   reducer.add(param, bytes);                                // Local
//   if (reducer.arrivals().complete(u)) reducer.reduce(u);    // Collective: begins
//   reducer.finish();                                         // Collective: sums() and gradient shards may be read
//
// A gradient is copied into its unit's flat range when autograd has computed it. The range is the whole gradient if the
// rank holds it, else a staging block from the first gradient to the reduction. The executor reduces complete units.
// Each rank receives the fp32 sum of its shard in rank order, with its sum of squares and non-finite count from the
// same pass. A shard on another tier is summed in a block on the device, then offloaded. With `reduce each`, every
// micro-batch is reduced and added to the shard's fp32 sum; with `last`, micro-batches are summed locally in fp32 and
// reduced once. If a step has leaves, both sum them in one tree (leaf_sums.h). bf16 and fp16 gradients are sent in
// their type. Their sum is rounded to it after the last micro-batch, unless the placement keeps sums in fp32. The order
// of lanes is at the private functions.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/work_timer.h"
#include "zero/engine/reduce/gradient_arrivals.h"
#include "zero/engine/reduce/gradient_sum.h"
#include "zero/engine/reduce/leaf_sums.h"
#include "zero/engine/reduce/reduced_gradients.h"
#include "zero/engine/states/given_gradients.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/memory/disk/block_pool.h"

namespace zero {

class Reducer {
 public:
  // `min_budget`: waits for each reduction at once ("min"). `comm`: the ranks that hold one copy of the model.
  // `copies`: the ranks that hold this rank's shard in other copies.
  Reducer(ShardedState& state, std::size_t num_params, bool min_budget, Communicator& comm, Ledger& ledger,
          Timeline* timeline = nullptr, GradientSum::Copies copies = {}, const std::optional<Leaves>& leaves = {});
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Adds a gradient, contiguous and in the unit's dtype. Collective if it must allocate a staging block, else Local. So
  // all ranks must add gradients in the same order.
  void add(int param, const std::byte* gradient);
  // Local. For a rank that runs no passes: reduce() sums these gradients, which other ranks computed. `given` must live
  // until clear().
  void give(const GivenGradients& given);
  const GivenGradients* given() const { return given_; }
  // Called once for each unit with a complete sum. `pass`: number of the backward pass in the step, from 0. Only
  // reduce() and wait() call it, never add().
  using Summed = std::function<void(int unit, int pass)>;
  void set_summed(Summed summed) { summed_ = std::move(summed); }

  // Collective. Reduces the unit's gradient. Missing gradients count as zeros.
  void reduce(int unit);
  // Collective. Adds the unit's gradient of this pass to the rank's sum of leaves, if a later pass reduces that sum.
  void sum_leaf(int unit);
  // Call it before a unit is used. Local: computes the sums of shards on another tier whose inputs have all arrived,
  // and begins to offload them, while the model computes. Collective with copies: ends sums after some uses.
  void pump();
  // Local. Ends a backward pass: the next pass may add every gradient again.
  void end_backward();
  // Collective. Waits for everything begun.
  void wait();
  // Collective. Waits for everything begun, and rounds sums if needed.
  void finish();
  // Local, between backward passes, after wait() and a barrier. Drops the gradients of these parameters, by parameter,
  // from the step's sums.
  void drop(const std::vector<bool>& params);
  // Local. Ends the step.
  void clear();

  const GradientArrivals& arrivals() const { return arrivals_; }
  // Valid after finish().
  ReducedGradients& sums() { return sums_; }

  const WorkTimer& timer() const { return timer_; }
  WorkTimer& timer() { return timer_; }

  BlockPool& blocks() { return staging_; }  // blocks that peers read

 private:
  struct UnitGradient {
    int num_rounds = 0;            // reductions begun in this step
    std::byte* staging = nullptr;  // flat range, if it is not the whole gradient
  };
  struct Pending {
    Work work;
    int unit;
    std::byte* staging;
    std::byte* sum;  // this rank's shard, to be offloaded; null if it is already in its place
    int pass;
    CounterStep counted{};  // place of the sum; its merges follow the sum
    TimedSpan span{};
  };

  // Order of lanes on a device that the host cannot read. A gradient is copied down (kReduce) after its operators and
  // its copies into the flat range (kCompute). A sum over micro-batches is also copied after its last copy up (kUp). A
  // sum is copied up (kUp) after the last use of its block. If the sum has its own memory, the previous update has
  // finished reading it: since then the unit was gathered, or its whole gradient written. A sum is offloaded (kDown),
  // rounded (kReduce) and used by updates (kUpdate) after its copy up. Gradients of operators are copied into a whole
  // gradient (kCompute) after the sum and the update of the step before.
  UnitGradient& at(int unit) { return gradients_[static_cast<std::size_t>(unit)]; }
  const UnitGradient& at(int unit) const { return gradients_[static_cast<std::size_t>(unit)]; }
  // Returns whether the flat range is the rank's whole gradient, summed and reduced in place. A step cannot reduce it
  // twice, because the first reduction leaves its sum there.
  bool in_place(int unit) const;
  std::byte* flat(int unit) const;
  DType flat_dtype(int unit) const;
  std::int64_t shard_bytes(int unit, DType dtype) const;
  std::byte* acquire(int unit);
  std::byte* to_wire_type(int unit);
  void sum_given(int unit);
  // Returns the step of the unit's next reduction.
  CounterStep next_sum(int unit) const;
  std::byte* prepare_wire(int unit);
  void add_leaf(int unit);
  // Adds the partial sum at `position` to the one below.
  void merge(int unit, int position);
  void offload(Pending& pending);
  void wait_oldest();
  void report_landed();
  void wait_for(int unit);
  // Waits for late peers, which may still read the last step's whole gradients.
  void before_whole_gradients_change();
  void zero_missing(int unit);

  ShardedState& state_;
  Communicator& comm_;
  GradientSum over_ranks_;
  Timeline* timeline_;
  WorkTimer timer_;
  BlockPool staging_;
  BlockPool shards_;  // for gradients on another tier; no peer reads them
  GradientArrivals arrivals_;
  ReducedGradients sums_;
  LeafSums leaf_sums_;
  std::vector<UnitGradient> gradients_;
  const GivenGradients* given_ = nullptr;  // of this step; null: passes add gradients
  std::deque<Pending> pending_;
  Summed summed_ = [](int, int) {};
  std::vector<std::pair<int, int>> landed_;  // units and passes that summed_ has not received yet
  std::size_t max_pending_ = 1;
  std::int64_t staging_limit_ = 0;
  bool must_drain_ = false;  // see before_whole_gradients_change()
  int num_uses_ = 0;         // of units, since the newest sum began
};

}  // namespace zero
