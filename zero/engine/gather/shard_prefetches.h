// ShardPrefetches: reads this rank's shards from a lower tier before their gathers, in the order of the gathers.
//
//   prefetches.want(3);  prefetches.want(4);   // begins 3 at once, 4 after it
//   prefetches.pump();                         // begins prefetches whose update has ended
//   prefetches.gather_begins(3);               // this gather takes the place of a prefetch that never began
//
// A shard that must wait (still gathered, still read for an earlier gather, not yet updated) delays the shards after
// it. Local. No-op if all parameters are on the device.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "zero/engine/gather/gather_blocks.h"
#include "zero/engine/states/state_streams.h"
#include "zero/plan/schedule/residency.h"

namespace zero {

class ShardPrefetches {
 public:
  // `is_current`: returns whether the unit's shard waits for no update. `gathered` and `blocks` must outlive it.
  ShardPrefetches(StateStreams& streams, const GatherBlocks& blocks, const Residency& gathered,
                  std::function<bool(int unit)> is_current)
      : streams_(streams), blocks_(blocks), gathered_(gathered), is_current_(std::move(is_current)) {}

  // Requests a prefetch, in the order of the gathers.
  void want(int unit);
  // Begins waiting prefetches, as far as they can begin now.
  void pump();
  // Notes that the unit is gathered now: requests before its own are dropped.
  void gather_begins(int unit);
  // Cancels all prefetches; shards may change.
  void cancel();

 private:
  StateStreams& streams_;
  const GatherBlocks& blocks_;
  const Residency& gathered_;
  std::function<bool(int unit)> is_current_;
  std::deque<int> wanted_;  // units whose prefetch has not begun
};

}  // namespace zero
