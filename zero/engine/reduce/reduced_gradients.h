// ReducedGradients: this rank's shards of the gradients' sums over ranks, once they are made: what they say of themselves,
// and what an update reads.
//
//   reducer.finish();                                  // they are complete, and rounded
//   reducer.sums().stats(u).sum_squares
//   reducer.sums().gather(u);                          // stage 0: Collective
//   update(reducer.sums().for_update(u), reducer.sums().update_dtype(u));  reducer.sums().updated(u);
//
// A shard that lies on another tier is brought into a block of the device for as long as it is used. On a device that the host
// cannot read, a sum is there behind kUp; what is gathered goes down behind kUp, or behind kReduce, where it is rounded first, and
// is there behind kUp; the host waits for the rounding. Local, where nothing else is said. Valid after Reducer::finish(), until the next step's first gradient.
#pragma once

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
  // `whole`: blocks that peers read. `shards`: blocks for shards that lie on another tier. All outlive it.
  ReducedGradients(ShardedState& state, Communicator& comm, BlockPool& whole, BlockPool& shards, WorkTimer& timer,
                   Timeline* timeline);

  // Of this rank's shard.
  const ReduceStats& stats(int unit) const { return at(unit).stats; }
  // The first parameter with a non-finite value in this rank's shard of the unit; -1: none.
  int first_non_finite(int unit);
  // This rank's shard in fp32, from wherever it lies; `out` has its elements.
  void read_shard(int unit, std::span<float> out);

  // Collective. The whole reduced gradient on every rank, until updated().
  void gather(int unit);
  // What the update of this rank's update range reads; null where it does not lie on the device.
  const std::byte* for_update(int unit) const;
  DType update_dtype(int unit) const;
  // The update has read the unit's gradient.
  void updated(int unit);

  // Of the Reducer: where a reduction writes its statistics, the end of all of a step's, and the end of the step.
  ReduceStats* stats_of_reduction(int unit) { return &at(unit).stats; }
  void round();
  // The sums of these parameters of the unit, by parameter, become zeros, and the statistics those of the rest.
  void drop(int unit, const std::vector<bool>& params);
  void clear();

 private:
  struct UnitSum {
    ReduceStats stats;
    std::byte* gathered = nullptr;  // a block with the whole gradient in the wire's type
  };
  UnitSum& at(int unit) { return sums_[static_cast<std::size_t>(unit)]; }
  const UnitSum& at(int unit) const { return sums_[static_cast<std::size_t>(unit)]; }
  // `lane`: the one that wrote them last.
  HostCopy for_the_host(Lane lane, const std::byte* elements, DType dtype, std::int64_t numel) const;
  // In place where it lies on the device; else it is brought in kUp, and taken back, if `writes`, in kDown.
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
