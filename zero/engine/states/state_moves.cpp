#include "zero/engine/states/state_moves.h"

#include <algorithm>

#include "zero/base/error/check.h"

namespace zero {
namespace {

std::int64_t bytes_of(const PlacedPiece& placed) {
  return placed.array->bytes(placed.piece);
}

class Room {
 public:
  // A tier has room for the larger of its bytes before and after the move.
  explicit Room(const std::vector<PlacedPiece>& pieces) {
    for (const PlacedPiece& placed : pieces) {
      of(placed.piece.to) += bytes_of(placed);
      of(placed.piece.from) -= bytes_of(placed);
    }
    for (const Tier tier : kAllTiers) of(tier) = std::max<std::int64_t>(of(tier), 0);
  }
  bool holds(const PlacedPiece& placed) const {
    const Tier to = placed.piece.to;
    return to == kLastTier || bytes_of(placed) <= bytes_[to];
  }
  void move(PlacedPiece& placed, Tier to) {
    of(placed.piece.from) += bytes_of(placed);
    of(to) -= bytes_of(placed);
    placed.array->move(placed.piece, to);
  }

 private:
  std::int64_t& of(Tier tier) { return bytes_[tier]; }
  PerTier<std::int64_t> bytes_;
};

}  // namespace

std::int64_t move_pieces(std::vector<PlacedPiece> pieces) {
  Room room(pieces);
  std::int64_t moved = 0;
  for (const PlacedPiece& placed : pieces) moved += bytes_of(placed);
  std::ranges::stable_partition(pieces, [](const PlacedPiece& placed) { return placed.piece.to == kLastTier; });
  while (!pieces.empty()) {
    std::vector<PlacedPiece> rest;
    for (PlacedPiece& placed : pieces) room.holds(placed) ? room.move(placed, placed.piece.to) : rest.push_back(placed);
    const bool stuck = rest.size() == pieces.size();
    pieces = std::move(rest);
    if (!stuck) continue;
    const auto waits = std::ranges::find_if(pieces, [](const auto& each) { return each.piece.from != kLastTier; });
    ZERO_CHECK(waits != pieces.end(), "states that should fit do not fit");
    room.move(*waits, kLastTier);
  }
  return moved;
}

}  // namespace zero
