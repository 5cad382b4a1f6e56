// StateStreams: transfers a rank's states between the device and other tiers.
//
//   StateStreams& streams = state.streams();
//   streams.begin_prefetch(u);                     // in the order of the gathers
//   streams.fetch_parameter(u, into, numel);       // waits for it
//   streams.offload_gradient(u, sum);              // begins; finish_offloads() waits
//
// Parameters are prefetched before their gathers, gradients are offloaded after their reductions, and the update reads
// and writes its states tile by tile. Each has its own stream of tiles, so they overlap. They share staging memory.
// Local. Disk access throws IoError.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "zero/engine/states/state_array.h"
#include "zero/engine/states/tile_stream.h"

namespace zero {

class StateStreams {
 public:
  // For arrays that keep their tiers.
  StateStreams(const StateArrays& arrays, std::size_t num_units, const OffloadTiers& tiers, Ledger& ledger);

  // Begins to read this rank's shard of the unit's parameters. Prefetches run in the order in which they begin; a fetch
  // out of turn restarts the others. The shard must not change in between. Returns false if it is already being read.
  bool begin_prefetch(int unit);
  bool prefetches(int unit) const { return std::ranges::count(prefetching_, unit) > 0; }
  void cancel_prefetches();
  // Reads the first `numel` elements of the shard from any tier, prefetched or not, into the bytes of `into`. They are
  // ready after kUp. The caller must have ordered kUp after the last use of `into`; the same holds for
  // fetch_gradient().
  void fetch_parameter(int unit, std::byte* into, std::int64_t numel);

  // Reads this rank's shard of the reduced gradient.
  void fetch_gradient(int unit, std::byte* into);
  // Begins to write a gradient. `from` may be used again after kDown, which waits here for kUp, the lane of the sum.
  // The gradient is on its tier after finish_offloads() or a fetch_gradient().
  void offload_gradient(int unit, const std::byte* from);
  void finish_offloads() { offloads_.finish(); }
  // Returns whether another offload would begin at once.
  bool may_offload() { return offloads_.idle(); }

  // Returns the update's pass over states. Nothing else may change a state while it runs.
  TileStream& update_pass() { return updates_; }
  // Returns whether an update's new parameters move to another tier. If so, call TileStream::flush() before they are
  // used.
  bool moves_parameters() const { return moves_parameters_; }

  // Returns the pass over states between steps, which reads and writes tiles now.
  TileStream& visits() { return visits_; }

  // Ends everything, and frees staging memory.
  void finish();
  // Call it after states have moved to other tiers.
  void placement_changed();

  const OffloadTiers& tiers() const { return tiers_; }
  // Returns the seconds that this rank has waited for disk and link.
  double waited_seconds() const;

 private:
  void copy_up(int unit, std::span<std::byte> to, std::span<const std::byte> from, bool crosses);
  // Times a copy between host and device that is queued while the span lives. Zero bytes: times nothing.
  LaneSpan time_crossing(Activity direction, int unit, std::size_t bytes) const;

  const StateArrays& arrays_;
  std::size_t num_units_;
  OffloadTiers tiers_;
  BlockPool staging_;  // tiles of states on disk
  TileStream visits_, updates_, prefetches_, offloads_;
  std::deque<int> prefetching_;  // units being prefetched, in order
  bool moves_parameters_ = false;
};

}  // namespace zero
