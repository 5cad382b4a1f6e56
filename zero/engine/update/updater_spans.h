// Updater::for_each_part(), for_each_span(): spans of one parameter in a tile; pass_over(), queue_over(): a pass over a
// unit.
// Only for the files of Updater.
#pragma once

#include "zero/engine/update/updater.h"
#include "zero/optim/rule/update_grain.h"

namespace zero {

template <typename Use>
void Updater::for_each_part(const Tile& tile, const TileMemory& memory, const Shard& range, Use use) {
  const std::int64_t origin = state_.update_range(tile.unit).offset + tile.begin;
  for (const Slice& slice : owned_in(state_.unit(tile.unit), range)) {
    const auto param = static_cast<std::size_t>(slice.param);
    const SlicePart part = overlap(slice, range);
    if (part.numel == 0 || !present_[param]) continue;
    UpdateSpan span = memory.span(part.offset - origin, part.offset - origin + part.numel);
    span.first = part.begin;
    use(param, span);
  }
}

template <typename Use>
void Updater::for_each_span(const Tile& tile, const TileMemory& memory, const Shard& range, Use use) {
  for_each_part(tile, memory, range, [&](std::size_t param, const UpdateSpan& part) {
    team_.for_range(0, part.numel, update_grain(part.numel, team_.size(), needs_of(rule_) == RuleNeeds::kElements),
                    [&](std::int64_t begin, std::int64_t end) { use(param, part.part(begin, end - begin)); });
  });
}

template <typename Change, typename Use>
void Updater::pass_over(int unit, Pass pass, const Gradient& gradient, Change change, Use use) {
  const Shard range = state_.update_range(unit);
  TileStream& tiles = state_.streams().update_pass();
  tiles.begin(pass_arrays(pass), {{unit, range.numel}}, link_transfers(pass), /*for_the_host=*/true);
  while (const Tile* tile = tiles.next()) {
    const TileMemory there = memory_of(*tile, gradient.data, gradient.dtype);
    const Shard of_tile{range.offset + tile->begin, tile->numel};
    TileMemory memory = there;
    HostTile whole(state_.device(), host_tiles_, state_.streams().lanes(), unit);
    bring_whole(whole, *tile, memory, pass);
    change(memory, *tile);
    for_each_span(*tile, memory, of_tile, use);
    send_whole(whole, *tile, there, of_tile, pass);
  }
  tiles.finish();
}

template <typename Change, typename Queue>
void Updater::queue_over(int unit, Pass pass, const Gradient& gradient, Change change, Queue queue) {
  const Shard range = state_.update_range(unit);
  TileStream& tiles = state_.streams().update_pass();
  tiles.begin(pass_arrays(pass), {{unit, range.numel}}, link_transfers(pass));
  while (const Tile* tile = tiles.next()) {
    TileMemory memory = memory_of(*tile, gradient.data, gradient.dtype);
    change(memory, *tile);
    std::vector<SpanUpdate> together;
    for_each_part(*tile, memory, {range.offset + tile->begin, tile->numel},
                  [&](std::size_t param, const UpdateSpan& span) {
                    together.push_back({span, scalars_of(param, tile->on_host)});
                  });
    queue(together);
  }
  tiles.finish();
  queued_ = true;
}

}  // namespace zero
