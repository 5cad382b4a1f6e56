// unit_blocks(): the division of a unit's flat range among the ranks that hold one copy of the model.
//
//   comm.all_gather(shard, whole, {.unit = u, .blocks = unit_blocks(state.unit(u), sizeof(float))}).wait();
//
// Empty for equal shards. The unit must outlive the collective. Local.
#pragma once

#include <cstddef>

#include "zero/comm/blocks.h"
#include "zero/plan/units/unit.h"

namespace zero {

inline Blocks unit_blocks(const Unit& unit, std::size_t element_bytes) {
  return {unit.bounds, element_bytes};
}

}  // namespace zero
