// copy_piece_numel: in which pieces a sum of gradients passes along the chain of copies of a model.
//
// zero/comm/copies_reduce.h makes such sums, and zero/plan/cluster.h plans the time that they take. Values only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zero {

// Pieces that a copy may have passed up, and whose totals it has not waited for: a transport has room for them, and for as
// many totals on their way down.
constexpr int kMostPiecesAhead = 24;

// Elements of a piece of a shard of `numel`: at most 32 pieces, and 64 KiB or more each. A multiple of 4096, so that statistics are
// those of the whole shard.
constexpr std::int64_t copy_piece_numel(std::int64_t numel) {
  constexpr std::int64_t kBlock = 4096, kLeast = 4 * kBlock, kMostPieces = 32;
  const std::int64_t piece = std::max(kLeast, (numel + kMostPieces - 1) / kMostPieces);
  return (piece + kBlock - 1) / kBlock * kBlock;
}

}  // namespace zero
