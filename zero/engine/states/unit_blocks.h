// unit_blocks(), to_parameter_order(): a unit's flat range, divided among ranks, and in the order of parameters.
//
//   comm.all_gather(shard, whole, {.unit = u, .blocks = unit_blocks(state.unit(u), sizeof(float))}).wait();
//
// unit_blocks() is empty for equal shards. The unit must outlive the collective. Local.
#pragma once

#include <cstddef>

#include "zero/comm/blocks.h"
#include "zero/device/device.h"
#include "zero/plan/units/partition.h"
#include "zero/plan/units/unit.h"

namespace zero {

inline Blocks unit_blocks(const Unit& unit, std::size_t element_bytes) {
  return {unit.bounds, element_bytes};
}

// to_parameter_order(): copies a gathered unit into the order that operators see: each parameter is contiguous
// (Unit::slices).
//
//   if (unit.scattered) to_parameter_order(device, Lane::kGather, unit, gathered, whole, size_of(unit.dtype));
//
// Shards of a scattered unit (zero/plan/units/cut.h) are gathered in the order of owners. `gathered` and `whole` have
// unit.numel elements and do not overlap. Gaps in `whole` stay as they are. Local.
inline void to_parameter_order(Device& device, Lane lane, const Unit& unit, const std::byte* gathered, std::byte* whole,
                               std::size_t element_bytes) {
  const auto size = static_cast<std::int64_t>(element_bytes);
  for_each_stretch(unit, {0, unit.numel}, [&](std::int64_t offset, std::int64_t place, std::int64_t numel) {
    const auto bytes = static_cast<std::size_t>(numel * size);
    device.copy(lane, {whole + place * size, bytes}, {gathered + offset * size, bytes});
  });
}

}  // namespace zero
