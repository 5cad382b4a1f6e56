#include "zero/engine/update/update_tiles.h"

namespace zero {

static_assert(TileStream::kTileNumel % kCodeBlock == 0 && kBlockNumel % kCodeBlock == 0);

UpdateTiles::UpdateTiles(ShardedState& state, StepValues& values, RuleNeeds needs, const AttachOptions& options,
                         Ledger& ledger)
    : state_(state),
      values_(values),
      by_element_(needs == RuleNeeds::kElements),
      lane_times_(state.device(), options.timeline),
      host_tiles_([&device = state.device()](std::size_t bytes) { return device.allocate_pinned(bytes); }, ledger,
                  MemoryTag::kStaging, Tier::kHost, {}, state.device()),
      team_(options.threads) {}

void UpdateTiles::begin(const PassStates& states, std::vector<TileRange> ranges, bool for_the_host) {
  arrays_ = PassArrays(state_, states);
  state_.streams().update_pass().begin(arrays_.take(), std::move(ranges), arrays_.link_transfers(), for_the_host);
}

bool UpdateTiles::has_host_tiles(int unit) const {
  const UnitTiers tiers = tiers_of(state_.placement(), state_.unit(unit), state_.world());
  return !(tiers.parameter.on_device() && tiers.gradient.on_device() && tiers.optimizer.on_device());
}

std::int64_t UpdateTiles::bytes_of(const Tile& tile) const {
  return tile.numel * static_cast<std::int64_t>(size_of(state_.unit(tile.unit).dtype));
}

double UpdateTiles::device_seconds() {
  lane_times_.read();
  return lane_times_.seconds(Activity::kUpdate);
}

void UpdateTiles::bring_whole(HostTile& whole, const Tile& tile, TileMemory& memory) const {
  if (state_.device().host_readable()) return;
  const PassStates& states = arrays_.states();
  const auto bytes = [&tile](const std::byte* data, DType dtype) {
    return std::span(data, static_cast<std::size_t>(tile.numel) * size_of(dtype));
  };
  if (!arrays_.has_gradient() && memory.gradient != nullptr && states.gradient)
    memory.gradient = whole.bring(bytes(memory.gradient, memory.gradient_dtype));
  if (arrays_.parameter() < 0 && states.parameter) {
    const std::span<const std::byte> held = bytes(memory.held, memory.held_dtype);
    if (memory.held_dtype == DType::kFloat32) {
      memory.held = whole.bring(held);
      memory.parameter = reinterpret_cast<float*>(memory.held);
    } else {  // only written: the tile has a master
      memory.held = states.writes ? whole.room(held) : nullptr;
    }
  }
  whole.wait();
}

void UpdateTiles::send_whole(HostTile& whole, const Tile& tile, const TileMemory& there, const Shard& range) {
  if (state_.device().host_readable() || arrays_.parameter() >= 0 || !arrays_.states().parameter) return;
  for_each_part(tile, there, range, [&](std::size_t /*param*/, const UpdateSpan& part) {
    std::byte* const held =
        part.low_precision != nullptr ? part.low_precision : reinterpret_cast<std::byte*>(part.parameter);
    whole.send({held, static_cast<std::size_t>(part.numel) * size_of(there.held_dtype)});
  });
  follow(state_.device(), Lane::kUpdate, Lane::kUp);
  queued_ = true;
}

}  // namespace zero
