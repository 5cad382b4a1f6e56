// Updater::for_each_part(), for_each_span(): the parts of a tile that one parameter has. For the files of Updater alone.
#pragma once

#include "zero/engine/updater.h"
#include "zero/optim/update_grain.h"

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

}  // namespace zero
