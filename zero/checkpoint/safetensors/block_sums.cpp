#include "zero/checkpoint/safetensors/block_sums.h"

#include <algorithm>

#define XXH_INLINE_ALL  // takes the header only
#include <xxhash.h>

namespace zero {

std::uint64_t block_sum(std::span<const std::byte> block) {
  return XXH3_64bits(block.data(), block.size());
}

BlockSums sums_of(std::span<const std::byte> whole) {
  BlockSums content{.size_bytes = std::ssize(whole)};
  for (std::size_t begin = 0; begin < whole.size(); begin += kSumBlockBytes)
    content.sums.push_back(
        block_sum(whole.subspan(begin, std::min<std::size_t>(kSumBlockBytes, whole.size() - begin))));
  return content;
}

}  // namespace zero
