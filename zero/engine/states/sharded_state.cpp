#include "zero/engine/states/sharded_state.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/engine/states/state_array.h"
#include "zero/memory/account/host_memory.h"
#include "zero/optim/rule/update_rule.h"

namespace zero {

StateArrays ShardedState::make_arrays(const std::vector<StateSpec>& optimizer, Communicator& comm, Ledger& ledger,
                                      const OffloadTiers& around) const {
  const auto layout = [this](TierSplit UnitTiers::*state, auto element_bytes) {
    ArrayLayout layout;
    for (const Unit& unit : units_) {
      layout.splits.push_back(tiers_of(placement_, unit, world_).*state);
      layout.element_bytes.push_back(static_cast<std::int64_t>(element_bytes(unit)));
    }
    return layout;
  };
  const auto tiers = [&](bool sharded) { return Tiers{ledger, around.disk, around.movable && sharded, around.device}; };
  // The host updates its own part of a state, which is therefore never copied to the device.
  Tiers of_optimizer = tiers(true);
  of_optimizer.crosses = false;
  // If some parameters are off the device, only a part of this memory is written now, and only that part is committed.
  const bool away = !std::ranges::all_of(
      units_, [this](const Unit& unit) { return tiers_of(placement_, unit, world_).parameter.on_device(); });
  const auto window = [&comm, away](std::size_t bytes) {
    return comm.allocate(bytes, away ? Written::kPart : Written::kWhole);
  };
  const StateArray::Allocator plain = [&device = *around.device](std::size_t bytes) { return device.allocate(bytes); };
  StateArrays arrays;
  arrays.parameter = StateArray(layout(&UnitTiers::parameter, [](const Unit& unit) { return size_of(unit.dtype); }),
                                MemoryTag::kParameter, tiers(placement_.parameter_sharded), window);
  const auto gradient_bytes = [this](const Unit& unit) {
    return unit.trainable ? size_of(gradient_dtype(unit.index)) : 0;
  };
  arrays.gradient = StateArray(layout(&UnitTiers::gradient, gradient_bytes), MemoryTag::kGradient,
                               tiers(placement_.gradient_sharded), placement_.gradient_sharded ? plain : window);
  if (placement_.delayed_update)
    arrays.kept_gradient =
        StateArray(layout(&UnitTiers::gradient, gradient_bytes), MemoryTag::kGradient, tiers(true), plain);
  const auto master_bytes = [](const Unit& unit) { return unit.trainable && unit.dtype != DType::kFloat32 ? 4 : 0; };
  arrays.master = StateArray(layout(&UnitTiers::optimizer, master_bytes), MemoryTag::kMaster, of_optimizer, plain);
  for (const StateSpec& state : states_of_elements(optimizer)) {
    const auto bytes = [&state](const Unit& unit) {
      return unit.trainable && state.kept_by(unit.matrices()) ? state.value_bytes() : 0;
    };
    StateArray values(layout(&UnitTiers::optimizer, bytes), MemoryTag::kMoment, of_optimizer, plain);
    arrays.optimizer.push_back({state, std::move(values), {}});
    if (state.coded())
      arrays.optimizer.back().scales = StateArray(scales_layout(), MemoryTag::kMoment, tiers(false), plain);
  }
  return arrays;
}

// Scales stay on the device, even if other states leave it.
ArrayLayout ShardedState::scales_layout() const {
  ArrayLayout layout{.block = kCodeBlock};
  for (const Unit& unit : units_) {
    ZERO_CHECK(!unit.trainable || unit.grain % kCodeBlock == 0, "{} has a grain of {}", unit.name, unit.grain);
    layout.splits.push_back({.device = tiers_of(placement_, unit, world_).optimizer.numel()});
    layout.element_bytes.push_back(unit.trainable ? static_cast<std::int64_t>(sizeof(float)) : 0);
  }
  return layout;
}

ShardedState::ShardedState(const std::vector<Unit>& units, const Placement& placement,
                           const std::vector<StateSpec>& optimizer, Communicator& comm, Ledger& ledger,
                           const OffloadTiers& tiers)
    : units_(units),
      placement_(placement),
      rank_(comm.rank()),
      world_(comm.world()),
      arrays_(make_arrays(optimizer, comm, ledger, tiers)),
      factors_(placement.updated_elsewhere ? std::vector<Unit>() : units_, states_of_factors(optimizer), *tiers.device,
               ledger),
      streams_(arrays_, units.size(), tiers, ledger),
      contents_(*this, streams_) {
  for (const Unit& unit : units_)
    ZERO_CHECK(unit.bounds.empty() || (std::ssize(unit.bounds) == world_ + 1 && unit.own == rank_),
               "{} is cut for rank {} of {}, not for {} of {}", unit.name, unit.own, std::ssize(unit.bounds) - 1, rank_,
               world_);
  for (const Unit& unit : units_)
    ZERO_CHECK(unit.owned.empty() || unit.numel == padded_numel(unit, world_), "{} is cut for others than {} ranks",
               unit.name, world_);
}

Shard ShardedState::update_range(int unit) const {
  if (placement_.optimizer_sharded) return shard(unit);
  return {0, padded_numel(this->unit(unit), world_)};
}

Shard ShardedState::parameter_range(int unit) const {
  return placement_.parameter_sharded ? shard(unit) : Shard{0, padded_numel(this->unit(unit), world_)};
}

std::byte* ShardedState::whole_parameter(int unit) const {
  return placement_.parameter_sharded ? nullptr : arrays_.parameter.on_device(unit);
}

std::span<std::byte> ShardedState::parameter_shard(int unit) const {
  std::byte* held = arrays_.parameter.on_device(unit);
  if (held == nullptr) return {};
  const Shard own = shard(unit);
  const auto size = static_cast<std::int64_t>(size_of(this->unit(unit).dtype));
  return {held + (own.offset - parameter_range(unit).offset) * size, static_cast<std::size_t>(own.numel * size)};
}

DType ShardedState::gradient_dtype(int unit) const {
  return placement_.fp32_gradient() ? DType::kFloat32 : this->unit(unit).dtype;
}

std::byte* ShardedState::whole_gradient(int unit) const {
  return placement_.gradient_sharded ? nullptr : arrays_.gradient.on_device(unit);
}

std::byte* ShardedState::gradient_shard(int unit) const {
  std::byte* held = arrays_.gradient.on_device(unit);
  if (held == nullptr || placement_.gradient_sharded) return held;
  return held + shard(unit).offset * arrays_.gradient.element_bytes(unit);
}

void ShardedState::keep_gradients() {
  std::swap(arrays_.gradient, arrays_.kept_gradient);
}

const StateArray& ShardedState::applied_gradient() const {
  return placement_.delayed_update ? arrays_.kept_gradient : arrays_.gradient;
}

std::int64_t ShardedState::move_to(const std::vector<UnitTiers>& tiers) {
  streams_.finish();
  join_all(device());  // between steps, and seldom
  const auto for_each_array = [&](auto&& body) {
    const auto visit = [&](StateArray& array, TierSplit UnitTiers::*state) {
      if (!array.movable()) return;
      std::vector<TierSplit> splits;
      for (const UnitTiers& unit : tiers) splits.push_back(unit.*state);
      body(array, splits);
    };
    visit(arrays_.parameter, &UnitTiers::parameter);
    visit(arrays_.gradient, &UnitTiers::gradient);
    visit(arrays_.kept_gradient, &UnitTiers::gradient);
    visit(arrays_.master, &UnitTiers::optimizer);
    for (auto& [state, array, scales] : arrays_.optimizer) visit(array, &UnitTiers::optimizer);
  };
  std::vector<PlacedPiece> pieces;
  for_each_array([&pieces](StateArray& array, const std::vector<TierSplit>& splits) {
    for (const StatePiece& piece : array.pieces_to(splits)) pieces.push_back({&array, piece});
  });
  const std::int64_t moved = move_pieces(std::move(pieces));
  for_each_array([](StateArray& array, const std::vector<TierSplit>& splits) { array.settle(splits); });
  placement_.tiers = tiers;
  streams_.placement_changed();
  return moved;
}

}  // namespace zero
