#include "zero/engine/update/factors_pass.h"

#include <mutex>
#include <utility>

#include "zero/engine/update/factor_sums.h"

namespace zero {
namespace {

constexpr PassStates kFactors{
    .gradient = true,
    .touches = [](const StateSpec& /*state*/, std::size_t /*index*/, std::size_t /*count*/) { return false; }};

}  // namespace

void FactorsPass::run(std::span<const int> units) {
  if (rule_.factors() == nullptr) return;
  values_.begin_factors();
  for (const int index : units) {
    const Unit& unit = state_.unit(index);
    if (!unit.factored || !values_.any_present(unit)) continue;
    FactorSums sums(unit, comm_, ledger_, device_sums_ != nullptr ? Tier::kHost : Tier::kDevice);
    add_squares(unit, sums);
    sums.exchange();
    update_unit(unit, sums);
  }
  if (device_sums_ != nullptr) take_to_host(units);
}

void FactorsPass::add_squares(const Unit& unit, FactorSums& sums) {
  const FactorRule& rule = *rule_.factors();
  if (device_sums_ != nullptr) device_sums_->begin(sums.all().size());
  std::mutex lock;  // every span of a matrix has elements of many columns
  tiles_.read_shards({{unit.index, state_.update_range(unit.index).numel}}, kFactors,
                     [&](const Tile& tile, const TileMemory& memory, const Shard& range) {
                       if (!tile.on_host) {
                         const LaneSpan timed = tiles_.time_queued(tile.unit, tiles_.bytes_of(tile));
                         tiles_.for_each_part(tile, memory, range, [&](std::size_t param, const UpdateSpan& span) {
                           const FactorSums::Place place = sums.place_of(param);
                           const std::span<SumLimbs> there = device_sums_->at(place.begin, place.count());
                           rule.queue_squares(state_.device(), Lane::kUpdate, span,
                                              values_.scalars_of(param, tile.on_host), there.first(place.num_rows),
                                              there.subspan(place.num_rows));
                         });
                         return;
                       }
                       tiles_.for_each_span(tile, memory, range, [&](std::size_t param, const UpdateSpan& span) {
                         rule.add_squares(span, values_.scalars_of(param), sums.rows(param), sums.columns(param), lock);
                       });
                     });
  if (device_sums_ != nullptr) device_sums_->take(sums.all());
}

void FactorsPass::update_unit(const Unit& unit, FactorSums& sums) {
  const FactorRule& rule = *rule_.factors();
  Device& device = state_.device();
  std::span<const double> there;
  if (device_sums_ != nullptr) {
    there = device_sums_->send(sums.rounded());
    follow(device, Lane::kUpdate, Lane::kUp);
  }
  for (const Slice& slice : unit.slices) {
    const auto param = static_cast<std::size_t>(slice.param);
    if (!values_.is_present(param)) continue;
    FactorStates& states = state_.factors();
    const std::span<float> rows = states.of(param, StatePer::kRow), columns = states.of(param, StatePer::kColumn);
    if (device_sums_ != nullptr) {
      const FactorSums::Place place = sums.place_of(param);
      values_.set_factors_there(
          param, rule.queue_factors(device, Lane::kUpdate, rows, columns, states.mean_there(param),
                                    there.subspan(place.begin, place.count()), values_.scalars_of(param)));
    } else {
      values_.set_factors(param, rule.update_factors(rows, columns, sums.rounded(param), values_.scalars_of(param)));
    }
  }
}

void FactorsPass::take_to_host(std::span<const int> units) {
  const FactorStates& states = state_.factors();
  bool brought = false;
  for (const int index : units) {
    if (!tiles_.has_host_tiles(index)) continue;
    for (const Slice& slice : state_.unit(index).slices) {
      const auto param = static_cast<std::size_t>(slice.param);
      if (values_.factors_there(param).row_var.empty()) continue;
      if (!std::exchange(brought, true)) states.bring_down();
      values_.set_factors(param, {states.brought(param, StatePer::kRow), states.brought(param, StatePer::kColumn),
                                  states.brought_mean(param)});
    }
  }
}

}  // namespace zero
