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
//   reducer.add(param, bytes);                     // Local
//   if (reducer.complete(u)) reducer.reduce(u);    // Collective: begins
//   reducer.finish();                              // Collective: stats() and gradient shards may be read
//
// Micro-batches: with `reduce each` every backward is reduced and added to the shard's fp32 sum; with `last` they are
// summed locally in fp32 and reduced once. bf16 and fp16 gradients cross as they are and are rounded to their type
// once, after the last micro-batch, unless the placement keeps sums in fp32.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/engine/gradient_sum.h"
#include "zero/engine/phase_timer.h"
#include "zero/engine/sharded_state.h"
#include "zero/memory/block_pool.h"

namespace zero {

class Reducer {
 public:
  // Bytes of staging for these units' gradients: one unit's flat range fills and, without `minimum`, another is
  // reduced. If more ranges begin to fill (gradients that come before their turn, a unit whose gradients come far
  // apart), reductions are waited for sooner. With `minimum` there is none to wait for, and the units of one block fill
  // together: beside the largest block (Unit::repeated) a second embedding counts, or any other unit. A model whose
  // units are declared in another order than they are used takes more in its first step.
  static std::int64_t staging_limit(const std::vector<Unit>& units, int world, bool minimum);

  // `minimum`: each reduction is waited for at once ("min"). `comm`: the ranks that hold the model once; `across`: those
  // that hold this rank's shard in other copies of it, null where there are none.
  Reducer(ShardedState& state, std::size_t num_params, bool minimum, Communicator& comm, Ledger& ledger,
          Timeline* timeline = nullptr, Communicator* across = nullptr);

  // Local (Collective where a staging block must be made: the order of gradients is the same on every rank).
  // `gradient`: contiguous, in the unit's dtype.
  void add(int param, const std::byte* gradient);
  // Every parameter of the unit has a gradient in this backward pass, and it is not being reduced yet.
  bool complete(int unit) const;
  // Something arrived in this backward pass that reduce() has not taken.
  bool open(int unit) const;
  bool reduced(int unit) const { return at(unit).reduced; }  // at least once in this backward pass

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
  // Collective. The whole reduced gradient on every rank, until updated().
  void gather_gradient(int unit);
  // Local. The update has read the unit's gradient.
  void updated(int unit);
  // Local. The step is over.
  void clear();

  int unit_of(int param) const { return addresses_[static_cast<std::size_t>(param)].unit; }
  // After finish(). The first parameter with a non-finite value in this rank's shard of the unit; -1: none.
  int first_non_finite(int unit);
  // After finish(). This rank's shard of the sum over ranks, in fp32, from wherever it lies; `out` has its elements.
  void read_shard(int unit, std::span<float> out);
  // After finish(). Of this rank's shard of the sum over ranks.
  const ReduceStats& stats(int unit) const { return at(unit).stats; }
  // Which parameters got a gradient on this rank since clear().
  const std::vector<bool>& present() const { return present_; }
  // What the update of this rank's update range reads; null where it does not lie on the device.
  const std::byte* update_gradient(int unit) const;
  DType update_gradient_dtype(int unit) const;

  const PhaseTimer& timer() const { return timer_; }

  BlockPool& blocks() { return staging_; }

 private:
  struct UnitGradient {
    int num_arrived = 0;  // in this backward pass, not reduced yet
    int num_rounds = 0;   // reductions begun in this step
    bool reduced = false;
    std::byte* staging = nullptr;  // the flat range, where it is not the whole gradient
    ReduceStats stats;
    std::byte* gathered = nullptr;  // of gather_gradient(): a block with the whole gradient in the wire's type
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
  void offload(Pending& pending);
  void wait_oldest();
  void tell_landed();
  void wait_for(int unit);
  // A block with this rank's shard of the sum, for as long as `work` takes; written back if `writes`. In place where it
  // lies on the device.
  template <typename Use>
  void with_gradient_shard(int unit, bool writes, Use use);
  void zero_missing(int unit);

  ShardedState& state_;
  Communicator& comm_;
  GradientSum over_ranks_;
  Timeline* timeline_;
  PhaseTimer timer_;
  BlockPool staging_;
  BlockPool sums_;  // shards of gradients that lie on another tier; no peer reads them
  std::vector<SliceAddress> addresses_;
  std::vector<UnitGradient> gradients_;
  std::vector<bool> arrived_;  // by parameter, in this backward pass and not reduced
  std::vector<bool> present_;  // by parameter, in this step
  std::deque<Pending> pending_;
  Summed summed_ = [](int, int) {};
  std::vector<std::pair<int, int>> landed_;  // unit and pass that summed_ is still to be told
  int num_passes_ = 0;                       // backward passes of this step that are over
  std::size_t max_pending_ = 1;
  std::int64_t staging_limit_ = 0;
  bool must_drain_ = false;  // a late peer may still read what the last step left in the whole gradients
};

}  // namespace zero
