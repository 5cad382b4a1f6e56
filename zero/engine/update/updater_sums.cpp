// Updater's passes before an update: sums over parameters, and over rows and columns.
#include <mutex>
#include <utility>

#include "zero/engine/reduce/parameter_sums.h"
#include "zero/engine/update/factor_sums.h"
#include "zero/engine/update/updater.h"
#include "zero/engine/update/updater_spans.h"

namespace zero {

template <typename Use>
void Updater::read_shards(std::span<const int> units, Pass pass, Use use) {
  std::vector<TileRange> ranges;
  for (const int unit : units)
    ranges.push_back({unit, outstanding_[static_cast<std::size_t>(unit)] ? state_.update_range(unit).numel : 0});
  TileStream& tiles = state_.streams().update_pass();
  tiles.begin(pass_arrays(pass), std::move(ranges), link_transfers(pass));
  while (const Tile* tile = tiles.next()) {
    const bool sharded = state_.placement().optimizer_sharded;
    const std::byte* gradient = sharded ? state_.gradient_shard(tile->unit) : state_.whole_gradient(tile->unit);
    TileMemory memory = memory_of(*tile, gradient, state_.gradient_dtype(tile->unit));
    const Shard shard = state_.shard(tile->unit);
    const std::int64_t begin = state_.update_range(tile->unit).offset + tile->begin;
    const std::int64_t first = std::max(begin, shard.offset);
    const std::int64_t last = std::min(begin + tile->numel, shard.offset + shard.numel);
    if (first >= last) continue;
    HostTile whole(state_.device(), host_tiles_, state_.streams().lanes(), tile->unit);
    if (tile->on_host) bring_whole(whole, *tile, memory, pass);
    use(*tile, memory, Shard{first, last - first});
  }
  tiles.finish();
}

void Updater::sum_parameters(std::span<const int> units) {
  const auto num_sums = static_cast<std::size_t>(rule_.num_sums());
  std::vector<ExactSum> sums(steps_.size() * num_sums);
  sums_.clear();
  if (device_sums_) device_sums_->begin(sums.size());
  std::mutex mutex;
  read_shards(units, Pass::kSums, [&](const Tile& tile, const TileMemory& memory, const Shard& range) {
    if (!tile.on_host) {
      const LaneSpan timed = time_queued(tile.unit, bytes_of(tile));
      for_each_part(tile, memory, range, [&](std::size_t param, const UpdateSpan& span) {
        rule_.queue_sums(state_.device(), Lane::kUpdate, span, scalars_of(param, tile.on_host),
                         device_sums_->at(param * num_sums, num_sums));
      });
      return;
    }
    for_each_span(tile, memory, range, [&](std::size_t param, const UpdateSpan& span) {
      std::vector<ExactSum> mine(num_sums);
      rule_.add_sums(span, scalars_of(param), mine);
      const std::lock_guard lock(mutex);
      for (std::size_t i = 0; i < num_sums; ++i) sums[param * num_sums + i].add(mine[i]);
    });
  });
  if (device_sums_) device_sums_->take(sums);
  sums_ = sums_over_ranks(comm_, sums);
}

void Updater::update_factors(std::span<const int> units) {
  const FactorRule& rule = *rule_.factors();
  Device& device = state_.device();
  factors_.assign(steps_.size(), {});
  factors_there_ = factors_;
  for (const int index : units) {
    const Unit& unit = state_.unit(index);
    if (!unit.factored || !updates(index)) continue;
    FactorSums sums(unit, comm_, ledger_, device_sums_ ? Tier::kHost : Tier::kDevice);
    if (device_sums_) device_sums_->begin(sums.all().size());
    std::mutex lock;  // every span of a matrix has elements of many columns
    read_shards({&index, 1}, Pass::kFactors, [&](const Tile& tile, const TileMemory& memory, const Shard& range) {
      if (!tile.on_host) {
        const LaneSpan timed = time_queued(tile.unit, bytes_of(tile));
        for_each_part(tile, memory, range, [&](std::size_t param, const UpdateSpan& span) {
          const FactorSums::Place place = sums.place_of(param);
          const std::span<SumLimbs> there = device_sums_->at(place.begin, place.count());
          rule.queue_squares(device, Lane::kUpdate, span, scalars_of(param, tile.on_host), there.first(place.num_rows),
                             there.subspan(place.num_rows));
        });
        return;
      }
      for_each_span(tile, memory, range, [&](std::size_t param, const UpdateSpan& span) {
        rule.add_squares(span, scalars_of(param), sums.rows(param), sums.columns(param), lock);
      });
    });
    if (device_sums_) device_sums_->take(sums.all());
    sums.exchange();
    std::span<const double> there;
    if (device_sums_) {
      there = device_sums_->send(sums.rounded());
      follow(device, Lane::kUpdate, Lane::kUp);
    }
    for (const Slice& slice : unit.slices) {
      const auto param = static_cast<std::size_t>(slice.param);
      if (!present_[param]) continue;
      FactorStates& states = state_.factors();
      const std::span<float> rows = states.of(param, StatePer::kRow), columns = states.of(param, StatePer::kColumn);
      if (device_sums_) {
        const FactorSums::Place place = sums.place_of(param);
        factors_there_[param] = rule.queue_factors(device, Lane::kUpdate, rows, columns, states.mean_there(param),
                                                   there.subspan(place.begin, place.count()), scalars_of(param));
      } else {
        factors_[param] = rule.update_factors(rows, columns, sums.rounded(param), scalars_of(param));
      }
    }
  }
  if (device_sums_) take_factors_to_host(units);
}

bool Updater::has_host_tiles(int unit) const {
  const UnitTiers tiers = tiers_of(state_.placement(), state_.unit(unit), state_.world());
  return !(tiers.parameter.on_device() && tiers.gradient.on_device() && tiers.optimizer.on_device());
}

void Updater::take_factors_to_host(std::span<const int> units) {
  const FactorStates& states = state_.factors();
  bool brought = false;
  for (const int index : units) {
    if (!has_host_tiles(index)) continue;
    for (const Slice& slice : state_.unit(index).slices) {
      const auto param = static_cast<std::size_t>(slice.param);
      if (factors_there_[param].row_var.empty()) continue;
      if (!std::exchange(brought, true)) states.bring_down();
      factors_[param] = {states.brought(param, StatePer::kRow), states.brought(param, StatePer::kColumn),
                         states.brought_mean(param)};
    }
  }
}

}  // namespace zero
