#include "zero/engine/update/tile_memory.h"

namespace zero {

UpdateSpan TileMemory::span(std::int64_t begin, std::int64_t end) const {
  UpdateSpan span{.parameter = parameter == nullptr ? nullptr : parameter + begin,
                  .gradient_dtype = gradient_dtype,
                  .numel = end - begin};
  if (gradient != nullptr) span.gradient = gradient + begin * static_cast<std::int64_t>(size_of(gradient_dtype));
  for (std::size_t which = 0; which < states.size(); ++which) {
    if (states[which] != nullptr) span.states[which] = states[which] + begin;
    span.coded[which] = coded[which].from(begin);
  }
  if (held_dtype != DType::kFloat32 && held != nullptr) {
    span.low_precision = held + begin * static_cast<std::int64_t>(size_of(held_dtype));
    span.low_precision_dtype = held_dtype;
  }
  return span;
}

PassArrays::PassArrays(const ShardedState& state, const PassStates& states) : state_(&state), states_(states) {
  const Placement& placement = state.placement();
  const StateArrays& held = state.arrays();
  const TileAccess access = states.writes ? TileAccess::kReadWrite : TileAccess::kRead;
  // Whole parameters are on the device, and the pass covers a part of them.
  if (placement.parameter_sharded && states.parameter) parameter_ = add(held.parameter, access);
  if (placement.gradient_sharded && states.gradient) gradient_ = add(state.applied_gradient(), TileAccess::kRead);
  if (states.parameter) master_ = add(held.master, access);
  for (const auto& [spec, array, scales] : held.optimizer) {
    const bool wanted = states.touches(spec, optimizer_.size(), held.optimizer.size());
    optimizer_.push_back(wanted ? add(array, access) : -1);
    scales_.push_back(wanted && spec.coded() ? add(scales, access) : -1);
  }
}

int PassArrays::add(const StateArray& array, TileAccess access) {
  arrays_.push_back({&array, access});
  return static_cast<int>(arrays_.size()) - 1;
}

std::vector<LinkTransfer> PassArrays::link_transfers() const {
  const Placement& placement = state_->placement();
  LinkTransfer read{TileAccess::kRead, {}}, written{TileAccess::kWrite, {}}, gradient{TileAccess::kRead, {}};
  for (const Unit& unit : state_->units()) {
    const auto bytes = static_cast<std::int64_t>(size_of(unit.dtype));
    read.element_bytes.push_back(unit.dtype == DType::kFloat32 ? bytes : 0);  // other units have a master
    written.element_bytes.push_back(bytes);
    gradient.element_bytes.push_back(static_cast<std::int64_t>(size_of(state_->gradient_dtype(unit.index))));
  }
  std::vector<LinkTransfer> transfers;
  if (!placement.parameter_sharded && states_.parameter) {
    transfers.push_back(std::move(read));
    if (states_.writes) transfers.push_back(std::move(written));
  }
  if (!placement.gradient_sharded && states_.gradient) transfers.push_back(std::move(gradient));
  return transfers;
}

// Returns null unless parameters are whole on every rank.
std::byte* PassArrays::held_whole(int unit) const {
  return state_->placement().optimizer_sharded ? state_->parameter_shard(unit).data() : state_->whole_parameter(unit);
}

TileMemory PassArrays::memory_of(const Tile& tile, const UnitGradient& gradient) const {
  const DType unit_dtype = state_->unit(tile.unit).dtype;
  const auto in_tile = [&](int slot) { return slot < 0 ? nullptr : tile.data[static_cast<std::size_t>(slot)]; };
  const auto from_unit = [&](auto* data, DType type) {
    return data + tile.begin * static_cast<std::int64_t>(size_of(type));
  };
  TileMemory memory{.gradient_dtype = gradient.dtype, .held_dtype = unit_dtype};
  memory.held = in_tile(parameter_);
  std::byte* const whole = memory.held == nullptr ? held_whole(tile.unit) : nullptr;
  if (whole != nullptr) memory.held = from_unit(whole, unit_dtype);
  if (gradient_ >= 0) {
    memory.gradient = in_tile(gradient_);
  } else if (gradient.data != nullptr) {
    memory.gradient = from_unit(gradient.data, gradient.dtype);
  }
  memory.parameter = reinterpret_cast<float*>(unit_dtype == DType::kFloat32 ? memory.held : in_tile(master_));
  for (std::size_t which = 0; which < optimizer_.size(); ++which) {
    std::byte* values = in_tile(optimizer_[which]);
    if (scales_[which] < 0) {
      memory.states[which] = reinterpret_cast<float*>(values);
    } else {
      memory.coded[which] = {reinterpret_cast<std::uint8_t*>(values),
                             reinterpret_cast<float*>(in_tile(scales_[which]))};
    }
  }
  return memory;
}

}  // namespace zero
