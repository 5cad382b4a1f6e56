#include "zero/engine/update/sums_pass.h"

#include <mutex>
#include <utility>

#include "zero/engine/reduce/device_sums.h"

namespace zero {
namespace {

constexpr PassStates kSums{
    .gradient = true,
    .parameter = true,
    .touches = [](const StateSpec& state, std::size_t /*index*/, std::size_t /*count*/) { return !state.outer; }};

}  // namespace

void SumsPass::run(std::vector<TileRange> ranges) {
  const auto num_sums = static_cast<std::size_t>(rule_.num_sums());
  std::vector<ExactSum> sums(values_.steps().size() * num_sums);
  values_.set_sums({});
  if (device_sums_ != nullptr) device_sums_->begin(sums.size());
  std::mutex mutex;
  tiles_.read_shards(std::move(ranges), kSums, [&](const Tile& tile, const TileMemory& memory, const Shard& range) {
    if (!tile.on_host) {
      const LaneSpan timed = tiles_.time_queued(tile.unit, tiles_.bytes_of(tile));
      tiles_.for_each_part(tile, memory, range, [&](std::size_t param, const UpdateSpan& span) {
        rule_.queue_sums(state_.device(), Lane::kUpdate, span, values_.scalars_of(param, tile.on_host),
                         device_sums_->at(param * num_sums, num_sums));
      });
      return;
    }
    tiles_.for_each_span(tile, memory, range, [&](std::size_t param, const UpdateSpan& span) {
      std::vector<ExactSum> mine(num_sums);
      rule_.add_sums(span, values_.scalars_of(param), mine);
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < num_sums; ++i) sums[param * num_sums + i].add(mine[i]);
    });
  });
  if (device_sums_ != nullptr) device_sums_->take(sums);
  values_.set_sums(sums_over_ranks(comm_, sums));
}

}  // namespace zero
