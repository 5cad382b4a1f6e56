// ShardPrefetches: this rank's shards that are to come from a lower tier before their gathers, in the order of those.
//
//   prefetches.want(3);  prefetches.want(4);   // 3 begins to come at once; 4 behind it
//   prefetches.pump();                         // those that had to wait for an update begin, when it is done
//   prefetches.gather_begins(3);               // a hint of it that never began is served by that gather
//
// A shard that is still gathered, on its way for an earlier gather, or yet to be updated keeps those after it waiting.
// Local. Does nothing where all parameters lie on the device.
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
  // `is_current`: no update of a unit's shard is still to be done. `gathered` and `blocks` outlive it.
  ShardPrefetches(StateStreams& streams, const GatherBlocks& blocks, const Residency& gathered,
                  std::function<bool(int unit)> is_current)
      : streams_(streams), blocks_(blocks), gathered_(gathered), is_current_(std::move(is_current)) {}

  // A hint, in the order of the gathers.
  void want(int unit);
  // Begins those hints that had to wait, as far as they can begin by now.
  void pump();
  // The unit is gathered now: hints before its own come to nothing.
  void gather_begins(int unit);
  // Nothing is coming any more; its contents may change.
  void cancel();

 private:
  StateStreams& streams_;
  const GatherBlocks& blocks_;
  const Residency& gathered_;
  std::function<bool(int unit)> is_current_;
  std::deque<int> wanted_;  // units whose shards are to come, and do not yet
};

}  // namespace zero
