// ReducedGradients: this rank's shards of the gradients' sums over ranks, their statistics, and the update's input.
//
//   reducer.finish();                                  // they are complete, and rounded
//   reducer.sums().stats(u).sum_squares
//   reducer.sums().gather(u);                          // stage 0: Collective
//   update(reducer.sums().for_update(u), reducer.sums().update_dtype(u));  reducer.sums().updated(u);
//
// A shard on another tier is copied to a block of the device while it is used. On a device that the host cannot read, a
// sum is ready after kUp. gather() copies its input down after kUp, or after kReduce if kReduce rounds the sum first.
// The output of gather() is ready after kUp. The host waits for the rounding. Local, unless said otherwise. Valid from
// Reducer::finish() to the next step's first gradient.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "zero/comm/communicator.h"
#include "zero/device/host_copy.h"
#include "zero/engine/options/work_timer.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/memory/disk/block_pool.h"

namespace zero {

class ReducedGradients {
 public:
  // `whole`: blocks that peers read. `shards`: blocks for shards on another tier. All must outlive it.
  ReducedGradients(ShardedState& state, Communicator& comm, BlockPool& whole, BlockPool& shards, WorkTimer& timer,
                   Timeline* timeline);

  // Returns the statistics of this rank's shard.
  const ReduceStats& stats(int unit) const { return at(unit).stats; }
  // Returns the first parameter with a non-finite value in this rank's shard of the unit; -1: none.
  int first_non_finite(int unit);
  // Reads this rank's shard in fp32, from any tier; `out` has room for its elements.
  void read_shard(int unit, std::span<float> out);

  // Collective. Gathers the whole reduced gradient on every rank, and keeps it until updated().
  void gather(int unit);
  // Returns the gradient of this rank's update range; null if it is not on the device.
  const std::byte* for_update(int unit) const;
  DType update_dtype(int unit) const;
  // Call it after the update has read the unit's gradient.
  void updated(int unit);

  // For the Reducer: the statistics that a reduction writes, the end of all sums of a step, and the end of the step.
  ReduceStats* stats_of_reduction(int unit) { return &at(unit).stats; }
  void round();
  // Lets use() change this rank's fp32 shard, on any tier.
  void change(int unit, const std::function<void(std::byte* shard)>& use);
  // Sets the unit's sums of these parameters, by parameter, to zero, and computes the statistics of the other
  // parameters.
  void drop(int unit, const std::vector<bool>& params);
  void clear();

 private:
  struct UnitSum {
    ReduceStats stats;
    std::byte* gathered = nullptr;  // block with the whole gradient in the wire's type
  };
  UnitSum& at(int unit) { return sums_[static_cast<std::size_t>(unit)]; }
  const UnitSum& at(int unit) const { return sums_[static_cast<std::size_t>(unit)]; }
  // `lane`: the lane that wrote `elements` last.
  HostCopy for_the_host(Lane lane, const std::byte* elements, DType dtype, std::int64_t numel) const;
  // Calls use() on the shard in place if it is on the device. Otherwise copies it up in kUp, and, if `writes`, back in
  // kDown.
  template <typename Use>
  void with_shard(int unit, bool writes, Use use);

  ShardedState& state_;
  Communicator& comm_;
  BlockPool& whole_;
  BlockPool& shards_;
  WorkTimer& timer_;
  Timeline* timeline_;
  std::vector<UnitSum> sums_;
};

}  // namespace zero
