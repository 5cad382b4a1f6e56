// Ramps: values that show their position. Element i of a unit's slices is 1 + i / 1000, and gaps are zero.
#pragma once

#include <vector>

#include "zero/engine/states/sharded_state.h"

namespace zero {

inline std::vector<float> ramp(const Unit& unit) {
  std::vector<float> whole(static_cast<std::size_t>(unit.numel), 0.0F);
  for (const Slice& slice : unit.slices) {
    for (std::int64_t i = 0; i < slice.numel; ++i) {
      whole[static_cast<std::size_t>(slice.offset + i)] = 1.0F + 0.001F * static_cast<float>(slice.offset + i);
    }
  }
  return whole;
}

inline const std::byte* bytes_of(const std::vector<float>& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

inline void load_ramps(ShardedState& state) {
  for (const Unit& unit : state.units()) state.contents().load(unit.index, bytes_of(ramp(unit)), DType::kFloat32);
}

}  // namespace zero
