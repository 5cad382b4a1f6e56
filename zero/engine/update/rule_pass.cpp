#include "zero/engine/update/rule_pass.h"

namespace zero {

void RulePass::update(const Tile& tile, const UnitGradient& gradient, std::byte* copy_to) {
  const std::int64_t bytes = tiles_->bytes_of(tile);
  const TimedSpan span(tile.on_host ? timeline_ : nullptr, Activity::kUpdate, tile.unit, bytes);
  if (tile.on_host) {
    tiles_->work_on(tile, gradient, kUnchanged, [this](std::size_t param, const UpdateSpan& elements) {
      rule_->update(elements, values_->scalars_of(param));
    });
  } else {
    tiles_->queue_on(tile, gradient, kUnchanged, [&](std::span<const SpanUpdate> updates) {
      const LaneSpan timed = tiles_->time_queued(tile.unit, bytes);
      rule_->queue(state_->device(), Lane::kUpdate, updates);
    });
  }
  if (copy_to == nullptr) return;
  const auto size = static_cast<std::size_t>(bytes);
  std::byte* const to = copy_to + tile.begin * static_cast<std::int64_t>(size_of(state_->unit(tile.unit).dtype));
  state_->device().copy(Lane::kUpdate, {to, size}, {tile.data[static_cast<std::size_t>(tiles_->parameter())], size});
}

}  // namespace zero
