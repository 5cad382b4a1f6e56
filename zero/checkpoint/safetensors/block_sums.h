// BlockSums: the checksums of a checkpoint's file, one for each 4 MiB.
//
//   const BlockSums sums = sums_of(file);
//   block_sum(block) == sums.sums[3]              // XXH3, 64 bits; the last block may be smaller
//
// Local.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace zero {

inline constexpr std::int64_t kSumBlockBytes = std::int64_t{4} << 20;

constexpr std::int64_t num_sum_blocks(std::int64_t bytes) {
  return (bytes + kSumBlockBytes - 1) / kSumBlockBytes;
}

struct BlockSums {
  std::int64_t size_bytes = 0;
  std::vector<std::uint64_t> sums;  // by block
  bool operator==(const BlockSums&) const = default;
};

// The sums of bytes in memory.
std::uint64_t block_sum(std::span<const std::byte> block);
BlockSums sums_of(std::span<const std::byte> whole);

}  // namespace zero
