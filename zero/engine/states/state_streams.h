// StateStreams: the transfers of a rank's states off the device, there and back.
//
// Parameters come ahead of their gathers, gradients leave behind their reductions, and the update takes its states tile
// by tile; each has a stream of tiles of its own, so that they run beside each other. Their staging memory is shared.
//
//   StateStreams& streams = state.streams();
//   streams.begin_prefetch(u);                     // in the order of the gathers
//   streams.fetch_parameter(u, into, numel);       // waits for it
//   streams.offload_gradient(u, sum);              // is on its way; finish_offloads() waits
//
// Local. What accesses the disk throws IoError.
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
  // Of arrays that stay where they are.
  StateStreams(const StateArrays& arrays, std::size_t num_units, const OffloadTiers& tiers, Ledger& ledger);

  // This rank's shard of the unit's parameters comes, one unit after the other in the order in which they are begun:
  // one that is fetched out of turn lets the others begin again. Their contents must not change in between. False: it
  // is on its way already.
  bool begin_prefetch(int unit);
  bool prefetches(int unit) const { return std::ranges::count(prefetching_, unit) > 0; }
  void cancel_prefetches();
  // The first `numel` elements of the shard from wherever they lie, begun or not; `into` has its bytes. They are there behind
  // kUp, which the caller has put behind the last use of `into`; so in fetch_gradient().
  void fetch_parameter(int unit, std::byte* into, std::int64_t numel);

  // This rank's shard of the reduced gradient.
  void fetch_gradient(int unit, std::byte* into);
  // `from` may be used again behind kDown, which comes after kUp here, where its sum came; the gradient is there after
  // finish_offloads(), or a fetch_gradient().
  void offload_gradient(int unit, const std::byte* from);
  void finish_offloads() { offloads_.finish(); }
  // Another one would begin at once.
  bool may_offload() { return offloads_.idle(); }

  // The update's pass over states. Nothing else may change a state while it runs.
  TileStream& update_pass() { return updates_; }
  // An update's new parameters are moved to where they lie: TileStream::flush() before they are used.
  bool moves_parameters() const { return moves_parameters_; }

  // Calls visit(tile) for every tile of one unit's part of one array, now. What it wrote is there after
  // finish_visits(), or the next visit.
  template <typename Visit>
  void visit_tiles(const StateArray& array, TileAccess access, int unit, Visit visit) {
    for_each_tile(visits_, {{&array, access}}, unit, visit);
  }
  // The same of a state in 8 bits: tile.data[0] are its codes, tile.data[1] their scales.
  template <typename Visit>
  void visit_coded_tiles(const StateArrays::Optimizer& state, TileAccess access, int unit, Visit visit) {
    for_each_tile(visits_, {{&state.array, access}, {&state.scales, access}}, unit, visit);
  }
  void finish_visits() { visits_.finish(); }

  // Ends everything, and gives staging memory back.
  void finish();
  // States lie elsewhere now.
  void placement_changed();

  Device& device() const { return *tiers_.device; }
  // Of a device with lanes; null: there is none.
  LaneLink* lanes() const { return tiers_.lanes; }
  // Tiles under way each way; see OffloadTiers.
  int depth() const { return tiers_.depth; }
  // That this rank has waited for disk and link so far.
  double waited_seconds() const;

 private:
  void copy_up(int unit, std::span<std::byte> to, std::span<const std::byte> from, bool crosses);
  // Of a copy between host and device that is queued while the span lives. No bytes: none crosses.
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
  BlockPool staging_;  // tiles of what lies on disk
  TileStream visits_, updates_, prefetches_, offloads_;
  std::deque<int> prefetching_;  // units that come ahead, in their order
  bool moves_parameters_ = false;
};

}  // namespace zero
