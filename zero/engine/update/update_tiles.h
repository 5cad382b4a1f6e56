// UpdateTiles: runs passes over the states of units, tile by tile. All kinds of passes share it.
//
//   UpdateTiles tiles(state, values, needs_of(rule), options, ledger);
//   tiles.over(unit, kSteps, gradient, kUnchanged, [&](std::size_t param, const UpdateSpan& span) { ... });
//   tiles.queue_over(unit, kSteps, gradient, kUnchanged, [&](std::vector<SpanUpdate>& updates) { ... });
//   tiles.read_shards(units, kSums, [&](const Tile& tile, const TileMemory& memory, const Shard& range) { ... });
//
// over() works on the host, with the threads of its team; queue_over() queues work on a device. Spans are parts of one
// present parameter. begin() and the functions on single tiles are for passes that last longer than a call (Updater).
// If the host updates a tile of whole device parameters, HostTile copies it down and back. kUpdate waits for the copy
// back, so waiting for kUpdate is enough. Bits do not depend on the number of threads. Local. Throws IoError.
#pragma once

#include <span>
#include <vector>

#include "zero/base/process/parallel.h"
#include "zero/device/lane_times.h"
#include "zero/engine/options/options.h"
#include "zero/engine/states/sharded_state.h"
#include "zero/engine/update/host_tile.h"
#include "zero/engine/update/step_values.h"
#include "zero/engine/update/tile_memory.h"
#include "zero/optim/rule/update_rule.h"
#include "zero/optim/rule/update_span.h"

namespace zero {

// The change of a pass that uses a tile's memory as it is.
constexpr auto kUnchanged = [](TileMemory& /*memory*/, const Tile& /*tile*/) {};

class UpdateTiles {
 public:
  // All must outlive it, except `options`.
  UpdateTiles(ShardedState& state, StepValues& values, RuleNeeds needs, const AttachOptions& options, Ledger& ledger);

  // Runs a pass over one unit on the host, now, whatever the tiers of its states. Calls change(memory, tile) before a
  // tile's spans, and use(param, span) for each span.
  template <typename Change, typename Use>
  void over(int unit, const PassStates& states, const UnitGradient& gradient, Change change, Use use);
  // Does the same for a unit with all states on a device: queue(updates) receives all spans of a tile at once.
  template <typename Change, typename Queue>
  void queue_over(int unit, const PassStates& states, const UnitGradient& gradient, Change change, Queue queue);
  // Calls use(tile, memory, range) for this rank's shard of the units, even if this rank updates whole units. Sums are
  // exact, so they do not depend on the rank that computes them. A range with numel 0 is skipped.
  template <typename Use>
  void read_shards(std::vector<TileRange> ranges, const PassStates& states, Use use);

  // Begins a pass over StateStreams::update_pass(). Ends the pass before.
  void begin(const PassStates& states, std::vector<TileRange> ranges, bool for_the_host = false);
  // Returns the position of parameters in the pass's tiles; -1: they are whole, or not in the pass.
  int parameter() const { return arrays_.parameter(); }
  // Calls use(param, span) for each span of a tile that the host works on. The spans are cut for the threads.
  template <typename Change, typename Use>
  void work_on(const Tile& tile, const UnitGradient& gradient, Change change, Use use);
  // Calls queue(updates) with the spans of a tile on the device.
  template <typename Change, typename Queue>
  void queue_on(const Tile& tile, const UnitGradient& gradient, Change change, Queue queue);
  // Calls use(param, span) for each present parameter in the tile's `range` of the unit's flat range. Spans are parts
  // of `memory`, the tile's. for_each_part() calls it for one span after the other; for_each_span() cuts spans for the
  // threads.
  template <typename Use>
  void for_each_part(const Tile& tile, const TileMemory& memory, const Shard& range, Use use);
  template <typename Use>
  void for_each_span(const Tile& tile, const TileMemory& memory, const Shard& range, Use use);

  // Times the work that is queued in kUpdate while the span lives.
  LaneSpan time_queued(int unit, std::int64_t bytes) {
    return {lane_times_, Lane::kUpdate, Activity::kUpdate, unit, bytes};
  }
  // Returns whether a state of the unit is off the device, so the host updates its tiles.
  bool has_host_tiles(int unit) const;
  // Returns the bytes of a tile's parameters, in the unit's type.
  std::int64_t bytes_of(const Tile& tile) const;
  // Reads the times of queued updates that the device has finished; until then a span keeps two marks of the device.
  // Call it in each step.
  void read_times() { lane_times_.read(); }
  // Returns the seconds of finished updates, and of sums before them, on a device that the host cannot read.
  double device_seconds();
  // Returns whether updates were queued on the device since the last call.
  bool take_queued() { return std::exchange(queued_, false); }
  ThreadTeam& team() { return team_; }

 private:
  Shard range_of(const Tile& tile) const { return {state_.update_range(tile.unit).offset + tile.begin, tile.numel}; }
  // bring_whole() points `memory` to host copies of whole parameters and gradients, if the host works on a tile and
  // cannot read the device. send_whole() copies the parameters that it wrote back to `there`.
  void bring_whole(HostTile& whole, const Tile& tile, TileMemory& memory) const;
  void send_whole(HostTile& whole, const Tile& tile, const TileMemory& there, const Shard& range);

  ShardedState& state_;
  StepValues& values_;
  bool by_element_;  // see update_grain()
  LaneTimes lane_times_;
  BlockPool host_tiles_;  // pinned memory of HostTile
  ThreadTeam team_;
  PassArrays arrays_;  // of the pass
  bool queued_ = false;
};

template <typename Use>
void UpdateTiles::for_each_part(const Tile& tile, const TileMemory& memory, const Shard& range, Use use) {
  const std::int64_t origin = state_.update_range(tile.unit).offset + tile.begin;
  for (const Slice& slice : owned_in(state_.unit(tile.unit), range)) {
    const auto param = static_cast<std::size_t>(slice.param);
    const SlicePart part = overlap(slice, range);
    if (part.numel == 0 || !values_.is_present(param)) continue;
    UpdateSpan span = memory.span(part.offset - origin, part.offset - origin + part.numel);
    span.first = part.begin;
    use(param, span);
  }
}

template <typename Use>
void UpdateTiles::for_each_span(const Tile& tile, const TileMemory& memory, const Shard& range, Use use) {
  for_each_part(tile, memory, range, [&](std::size_t param, const UpdateSpan& part) {
    team_.for_range(0, part.numel, update_grain(part.numel, team_.size(), by_element_),
                    [&](std::int64_t begin, std::int64_t end) { use(param, part.part(begin, end - begin)); });
  });
}

template <typename Change, typename Use>
void UpdateTiles::work_on(const Tile& tile, const UnitGradient& gradient, Change change, Use use) {
  const TileMemory there = arrays_.memory_of(tile, gradient);
  const Shard range = range_of(tile);
  TileMemory memory = there;
  HostTile whole(state_.device(), host_tiles_, state_.streams().tiers().lanes, tile.unit);
  bring_whole(whole, tile, memory);
  change(memory, tile);
  for_each_span(tile, memory, range, use);
  send_whole(whole, tile, there, range);
}

template <typename Change, typename Queue>
void UpdateTiles::queue_on(const Tile& tile, const UnitGradient& gradient, Change change, Queue queue) {
  TileMemory memory = arrays_.memory_of(tile, gradient);
  change(memory, tile);
  std::vector<SpanUpdate> together;  // on a GPU, a launch takes longer than the update of a small parameter
  for_each_part(tile, memory, range_of(tile), [&](std::size_t param, const UpdateSpan& span) {
    together.push_back({span, values_.scalars_of(param, tile.on_host)});
  });
  queue(together);
  queued_ = true;
}

template <typename Change, typename Use>
void UpdateTiles::over(int unit, const PassStates& states, const UnitGradient& gradient, Change change, Use use) {
  TileStream& tiles = state_.streams().update_pass();
  begin(states, {{unit, state_.update_range(unit).numel}}, /*for_the_host=*/true);
  while (const Tile* tile = tiles.next()) work_on(*tile, gradient, change, use);
  tiles.finish();
}

template <typename Change, typename Queue>
void UpdateTiles::queue_over(int unit, const PassStates& states, const UnitGradient& gradient, Change change,
                             Queue queue) {
  TileStream& tiles = state_.streams().update_pass();
  begin(states, {{unit, state_.update_range(unit).numel}});
  while (const Tile* tile = tiles.next()) queue_on(*tile, gradient, change, queue);
  tiles.finish();
}

template <typename Use>
void UpdateTiles::read_shards(std::vector<TileRange> ranges, const PassStates& states, Use use) {
  TileStream& tiles = state_.streams().update_pass();
  begin(states, std::move(ranges));
  while (const Tile* tile = tiles.next()) {
    const bool sharded = state_.placement().optimizer_sharded;
    const std::byte* gradient = sharded ? state_.gradient_shard(tile->unit) : state_.whole_gradient(tile->unit);
    TileMemory memory = arrays_.memory_of(*tile, {gradient, state_.gradient_dtype(tile->unit)});
    const Shard shard = state_.shard(tile->unit);
    const std::int64_t begin = range_of(*tile).offset;
    const std::int64_t first = std::max(begin, shard.offset);
    const std::int64_t last = std::min(begin + tile->numel, shard.offset + shard.numel);
    if (first >= last) continue;
    HostTile whole(state_.device(), host_tiles_, state_.streams().tiers().lanes, tile->unit);
    if (tile->on_host) bring_whole(whole, *tile, memory);
    use(*tile, memory, Shard{first, last - first});
  }
  tiles.finish();
}

}  // namespace zero
