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

#include "zero/engine/states/offload_tiers.h"
#include "zero/engine/states/state_arrays.h"
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

  // Calls visit(tile) for every tile of a unit's part of an array, now. Its writes are on their tier after
  // finish_visits() or the next visit.
  template <typename Visit>
  void visit_tiles(const StateArray& array, TileAccess access, int unit, Visit visit) {
    for_each_tile(visits_, {{&array, access}}, unit, visit);
  }
  // Does the same for a state in 8 bits: tile.data[0] are its codes, tile.data[1] their scales.
  template <typename Visit>
  void visit_coded_tiles(const StateArrays::Optimizer& state, TileAccess access, int unit, Visit visit) {
    for_each_tile(visits_, {{&state.array, access}, {&state.scales, access}}, unit, visit);
  }
  void finish_visits() { visits_.finish(); }

  // Ends everything, and frees staging memory.
  void finish();
  // Call it after states have moved to other tiers.
  void placement_changed();

  Device& device() const { return *tiers_.device; }
  // Returns the lanes of the device; null: none.
  LaneLink* lanes() const { return tiers_.lanes; }
  // Returns the number of tiles in transfer each way; see OffloadTiers.
  int depth() const { return tiers_.depth; }
  // Returns the seconds that this rank has waited for disk and link.
  double waited_seconds() const;

 private:
  void copy_up(int unit, std::span<std::byte> to, std::span<const std::byte> from, bool crosses);
  // Times a copy between host and device that is queued while the span lives. Zero bytes: times nothing.
  LaneSpan time_crossing(Activity direction, int unit, std::size_t bytes) const;
  template <typename Visit>
  static void for_each_tile(TileStream& stream, const std::vector<TileArray>& arrays, int unit, Visit visit) {
    const StateArray& array = *arrays.front().array;
    if (!array.has(unit)) return;
    stream.begin(arrays, {{unit, array.split(unit).numel()}});
    while (const Tile* tile = stream.next()) visit(*tile);
  }

  const StateArrays& arrays_;
  std::size_t num_units_;
  OffloadTiers tiers_;
  BlockPool staging_;  // tiles of states on disk
  TileStream visits_, updates_, prefetches_, offloads_;
  std::deque<int> prefetching_;  // units being prefetched, in order
  bool moves_parameters_ = false;
};

}  // namespace zero
