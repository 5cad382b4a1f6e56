// Reducer: gradients in, one rank's sum over all ranks out.
//
// A gradient is copied into its unit's flat range as autograd makes it. When the unit's range is complete the executor
// has it reduced: each rank gets the sum over ranks of its shard, in rank order, in fp32, with the sum of squares and
// the non-finite count taken in the same pass. The flat range is the rank's whole gradient where that is held, else a
// staging block that lives from the first gradient to the reduction.
//
// A gradient shard that lies on another tier is summed in a block on the device, and offloaded when its sum is
// complete.
//
//   reducer.add(param, bytes);                                // Local
//   if (reducer.arrivals().complete(u)) reducer.reduce(u);    // Collective: begins
//   reducer.finish();                                         // Collective: sums() and gradient shards may be read
//
// Micro-batches: with `reduce each` every backward is reduced and added to the shard's fp32 sum; with `last` they are
// summed locally in fp32 and reduced once. bf16 and fp16 gradients cross as they are and are rounded to their type
// once, after the last micro-batch, unless the placement keeps sums in fp32.
//
// On a device that the host cannot read, and no more than that:
// - a gradient comes down (kReduce) behind the operators that made it and its copies into the flat range (kCompute), and a
//   sum that goes on behind its last way up (kUp);
// - a sum goes up (kUp) behind the last use of its block. Where it has a place of its own, the update that read the last one
//   there is over: the unit was gathered behind it since, or its whole gradient written;
// - a sum leaves for another tier (kDown), is rounded (kReduce) and updates (kUpdate) behind its way up;
// - operators' gradients go into a whole gradient (kCompute) behind the sum and the update of the step before.
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/options/work_timer.h"
#include "zero/engine/reduce/gradient_arrivals.h"
#include "zero/engine/reduce/gradient_sum.h"
#include "zero/engine/reduce/reduced_gradients.h"
#include "zero/engine/states/given_gradients.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/memory/disk/block_pool.h"

namespace zero {

class Reducer {
 public:
  // `min_budget`: each reduction is waited for at once ("min"). `comm`: the ranks that hold the model once; `copies`: those
  // that hold this rank's shard in other copies of it.
  Reducer(ShardedState& state, std::size_t num_params, bool min_budget, Communicator& comm, Ledger& ledger,
          Timeline* timeline = nullptr, GradientSum::Copies copies = {});
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Local (Collective where a staging block must be made: the order of gradients is the same on every rank).
  // `gradient`: contiguous, in the unit's dtype.
  void add(int param, const std::byte* gradient);
  // Local. This step's gradients do not come from passes here: reduce() sums these. `given` lives until clear().
  void give(const GivenGradients& given);
  const GivenGradients* given() const { return given_; }
  // Called with each unit whose sum is where it belongs, and the step's backward pass it is of, from 0: every rank has
  // computed that gradient. From reduce() and wait() alone, never while a gradient is added.
  using Summed = std::function<void(int unit, int pass)>;
  void set_summed(Summed summed) { summed_ = std::move(summed); }

  // Collective. Missing gradients count as zeros.
  void reduce(int unit);
  // Local. Sums for another tier that wait for no rank any more are made and begin to go there: while the model
  // computes, and not behind it.
  void pump();
  // Local. A backward pass is over: the next one may bring every gradient again.
  void end_backward();
  // Collective. Waits for everything begun.
  void wait();
  // Collective. The same, and rounds what must be rounded.
  void finish();
  // Local, between backward passes, after wait() and a barrier: the gradients of these parameters, by parameter, are
  // dropped from the step's sums.
  void drop(const std::vector<bool>& params);
  // Local. The step is over.
  void clear();

  const GradientArrivals& arrivals() const { return arrivals_; }
  // After finish().
  ReducedGradients& sums() { return sums_; }

  const WorkTimer& timer() const { return timer_; }
  WorkTimer& timer() { return timer_; }

  BlockPool& blocks() { return staging_; }  // which peers read

 private:
  struct UnitGradient {
    int num_rounds = 0;            // reductions begun in this step
    std::byte* staging = nullptr;  // the flat range, where it is not the whole gradient
  };
  struct Pending {
    Work work;
    int unit;
    std::byte* staging;
    std::byte* sum;  // this rank's shard, on its way to another tier; null where it is in its place
    int pass;
    TimedSpan span{};
  };

  UnitGradient& at(int unit) { return gradients_[static_cast<std::size_t>(unit)]; }
  const UnitGradient& at(int unit) const { return gradients_[static_cast<std::size_t>(unit)]; }
  // The flat range is the rank's own whole gradient, summed and reduced in place. A second reduction in one step cannot
  // be: the first has left its sum there.
  bool in_place(int unit) const;
  std::byte* flat(int unit) const;
  DType flat_dtype(int unit) const;
  std::int64_t shard_bytes(int unit, DType dtype) const;
  std::byte* acquire(int unit);
  std::byte* to_wire_type(int unit);
  void sum_given(int unit);
  void offload(Pending& pending);
  void wait_oldest();
  void tell_landed();
  void wait_for(int unit);
  // A late peer may still read what the last step left in the whole gradients.
  void before_whole_gradients_change();
  void zero_missing(int unit);

  ShardedState& state_;
  Communicator& comm_;
  GradientSum over_ranks_;
  Timeline* timeline_;
  WorkTimer timer_;
  BlockPool staging_;
  BlockPool shards_;  // of gradients that lie on another tier; no peer reads them
  GradientArrivals arrivals_;
  ReducedGradients sums_;
  std::vector<UnitGradient> gradients_;
  const GivenGradients* given_ = nullptr;  // of this step; null: gradients come one by one
  std::deque<Pending> pending_;
  Summed summed_ = [](int, int) {};
  std::vector<std::pair<int, int>> landed_;  // unit and pass that summed_ is still to be told
  std::size_t max_pending_ = 1;
  std::int64_t staging_limit_ = 0;
  bool must_drain_ = false;  // see before_whole_gradients_change()
};

}  // namespace zero
