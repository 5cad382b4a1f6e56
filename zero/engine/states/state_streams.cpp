#include "zero/engine/states/state_streams.h"

#include <memory>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/memory/disk/block_cutter.h"

namespace zero {
namespace {

// Allocates memory that disk requests read and write repeatedly.
Allocation allocate_staging(Device& device, DiskTier* disk, std::size_t bytes) {
  if (disk == nullptr) return device.allocate_pinned(bytes);
  auto memory = std::make_shared<Allocation>(device.allocate_pinned(bytes));
  disk->register_memory(memory->bytes());
  return {memory->data(), bytes, [disk, memory](std::byte*, std::size_t) { disk->forget_memory(memory->bytes()); }};
}

}  // namespace

StateStreams::StateStreams(const StateArrays& arrays, std::size_t num_units, const OffloadTiers& tiers, Ledger& ledger)
    : arrays_(arrays),
      num_units_(num_units),
      tiers_(tiers),
      staging_(BlockCutter([device = tiers.device, disk = tiers.disk](std::size_t bytes) {
                 return allocate_staging(*device, disk, bytes);
               }),
               ledger, MemoryTag::kStaging, Tier::kHost, {}, *tiers.device),
      visits_(*tiers.device, tiers.disk, tiers.link, staging_, tiers.depth, /*for_the_host=*/true),
      updates_(*tiers.device, tiers.disk, tiers.link, staging_, tiers.depth, tiers.host_updates),
      prefetches_(*tiers.device, tiers.disk, tiers.link, staging_, OffloadTiers::prefetch_depth(tiers.depth)),
      offloads_(*tiers.device, tiers.disk, tiers.link, staging_, OffloadTiers::prefetch_depth(tiers.depth)) {
  placement_changed();
}

void StateStreams::placement_changed() {
  moves_parameters_ = tiers_.link != nullptr;
  for (std::size_t unit = 0; unit < num_units_; ++unit)
    moves_parameters_ = moves_parameters_ || arrays_.parameter.split(static_cast<int>(unit)).numel_in_tiles() > 0;
}

double StateStreams::waited_seconds() const {
  return (tiers_.disk != nullptr ? tiers_.disk->traffic().waited_seconds : 0) +
         (tiers_.link != nullptr ? tiers_.link->waited_seconds() : 0);
}

void StateStreams::finish() {
  cancel_prefetches();
  finish_offloads();
  visits_.finish();
  updates_.finish();
  staging_.trim(0);
}

bool StateStreams::begin_prefetch(int unit) {
  if (tiers_.depth == 1 || arrays_.parameter.on_device(unit) != nullptr) return true;
  if (prefetches(unit)) return false;
  const TileRange range{unit, arrays_.parameter.split(unit).numel()};
  if (prefetching_.empty()) {
    prefetches_.begin({{&arrays_.parameter, TileAccess::kBring}}, {range});
  } else {
    prefetches_.add(range);
  }
  prefetching_.push_back(unit);
  return true;
}

void StateStreams::cancel_prefetches() {
  prefetches_.finish();
  prefetching_.clear();
}

void StateStreams::fetch_parameter(int unit, std::byte* into, std::int64_t numel) {
  if (numel == 0) return;
  const StateArray& parameter = arrays_.parameter;
  ZERO_CHECK(parameter.on_device(unit) == nullptr, "the parameters of unit {} are not on another tier", unit);
  const std::int64_t size = parameter.element_bytes(unit);
  if (!prefetching_.empty() && prefetching_.front() == unit) {
    prefetching_.pop_front();
  } else {
    std::erase(prefetching_, unit);
    std::vector<TileRange> ranges{{unit, numel}};
    for (const int other : prefetching_) ranges.push_back({other, parameter.split(other).numel()});
    prefetches_.begin({{&parameter, TileAccess::kBring}}, std::move(ranges));
  }
  bool updated = false;
  while (prefetches_.next_unit() == unit) {
    const Tile* tile = prefetches_.next();
    // A tile on the device may be the output of an update there.
    if (!tile->on_host && !std::exchange(updated, true)) follow(*tiers_.device, Lane::kUp, Lane::kUpdate);
    const auto bytes = static_cast<std::size_t>(tile->numel * size);
    copy_up(unit, {into + tile->begin * size, bytes}, {tile->data[0], bytes}, tile->on_host);
  }
  prefetches_.put_back();
}

// Copies a tile up. `crosses`: the tile is on the host, so the copy crosses the link.
void StateStreams::copy_up(int unit, std::span<std::byte> to, std::span<const std::byte> from, bool crosses) {
  if (tiers_.lanes != nullptr && crosses) tiers_.lanes->count_up(std::ssize(from));
  const LaneSpan timed = time_crossing(Activity::kLinkUp, unit, crosses ? from.size() : 0);
  tiers_.device->copy(Lane::kUp, to, from);
}

LaneSpan StateStreams::time_crossing(Activity direction, int unit, std::size_t bytes) const {
  if (tiers_.lanes == nullptr || bytes == 0) return {};
  return tiers_.lanes->time(direction, unit, static_cast<std::int64_t>(bytes));
}

void StateStreams::fetch_gradient(int unit, std::byte* into) {
  finish_offloads();
  const std::int64_t size = arrays_.gradient.element_bytes(unit);
  for_each_tile(visits_, {{&arrays_.gradient, TileAccess::kBring}}, unit, [&](const Tile& tile) {
    const auto bytes = static_cast<std::size_t>(tile.numel * size);
    copy_up(unit, {into + tile.begin * size, bytes}, {tile.data[0], bytes}, tile.on_host);
  });
}

void StateStreams::offload_gradient(int unit, const std::byte* from) {
  const std::int64_t size = arrays_.gradient.element_bytes(unit);
  follow(*tiers_.device, Lane::kDown, Lane::kUp);
  for_each_tile(offloads_, {{&arrays_.gradient, TileAccess::kSend}}, unit, [&](const Tile& tile) {
    const auto bytes = static_cast<std::size_t>(tile.numel * size);
    const LaneSpan timed = time_crossing(Activity::kLinkDown, unit, tile.on_host ? bytes : 0);
    tiers_.device->copy(Lane::kDown, {tile.data[0], bytes}, {from + tile.begin * size, bytes});
  });
}

}  // namespace zero
