// move_pieces(): states change places, and no tier holds more meanwhile than before or after.
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

// Local. What goes to the disk goes first, and what has room where it goes next. Where pieces want each other's places,
// one of them waits on the disk: movable arrays have a place for all of themselves there. Returns the bytes that moved,
// those of a piece that waited once. Throws IoError.
std::int64_t move_pieces(std::vector<PlacedPiece> pieces);

}  // namespace zero
