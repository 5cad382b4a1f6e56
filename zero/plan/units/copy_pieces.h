// copy_piece_numel: the size of the pieces in which a sum of gradients passes along the chain of a model's copies.
//
// zero/comm/copies_reduce.h makes such sums, and zero/plan/cluster/cluster.h predicts their time. Values only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace zero {

// The most pieces that a copy may have passed on without having received their totals. A transport has room for so many
// pieces, and for as many totals on the way back.
constexpr int kMostPiecesAhead = 24;

// Returns the elements per piece of a shard of `numel` elements: at most 32 pieces, each at least 64 KiB. A multiple of
// 4096, so the pieces' statistics equal those of the whole shard.
constexpr std::int64_t copy_piece_numel(std::int64_t numel) {
  constexpr std::int64_t kBlock = 4096, kLeast = 4 * kBlock, kMostPieces = 32;
  const std::int64_t piece = std::max(kLeast, (numel + kMostPieces - 1) / kMostPieces);
  return (piece + kBlock - 1) / kBlock * kBlock;
}

}  // namespace zero
