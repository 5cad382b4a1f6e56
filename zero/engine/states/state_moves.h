// move_pieces(): moves states between tiers; no tier holds more during the move than before or after it.
//
//   std::vector<PlacedPiece> pieces;      // of all arrays
//   const std::int64_t moved = move_pieces(pieces);
#pragma once

#include <cstdint>
#include <vector>

#include "zero/engine/states/state_array.h"

namespace zero {

struct PlacedPiece {
  StateArray* array = nullptr;
  StatePiece piece;
};

// Local. Moves pieces for the disk first, then pieces for which their new tier has room. If pieces need each other's
// places, one of them waits on the disk; movable arrays have room for all elements there. Returns the bytes that moved;
// a piece that waited counts once. Throws IoError.
std::int64_t move_pieces(std::vector<PlacedPiece> pieces);

}  // namespace zero
