// The order of parameters: a gathered unit as operators see it, each parameter contiguous (Unit::slices).
//
//   if (unit.scattered) to_parameter_order(device, Lane::kGather, unit, gathered, whole, size_of(unit.dtype));
//
// Shards of a scattered unit (zero/plan/units/cut.h) are gathered in the order of owners, and copied here into the
// order of parameters. Local.
#pragma once

#include <cstddef>

#include "zero/device/device.h"
#include "zero/plan/units/partition.h"

namespace zero {

// Copies `gathered` to `whole`. Both have unit.numel elements and do not overlap. Gaps in `whole` stay as they are.
inline void to_parameter_order(Device& device, Lane lane, const Unit& unit, const std::byte* gathered, std::byte* whole,
                               std::size_t element_bytes) {
  const auto size = static_cast<std::int64_t>(element_bytes);
  for_each_stretch(unit, {0, unit.numel}, [&](std::int64_t offset, std::int64_t place, std::int64_t numel) {
    const auto bytes = static_cast<std::size_t>(numel * size);
    device.copy(lane, {whole + place * size, bytes}, {gathered + offset * size, bytes});
  });
}

}  // namespace zero
