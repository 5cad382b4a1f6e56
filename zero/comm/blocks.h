// Blocks: how a span of bytes is divided among ranks, equally or not.
//
//   const std::vector<std::int64_t> bounds{0, 600, 1000};               // elements: rank 0 has 600, rank 1 has 400
//   comm.all_gather(mine, all, {.unit = 3, .blocks = {bounds, sizeof(float)}}).wait();
//
// Without bounds all blocks are equal. Bounds rise; there is one more than there are ranks. They outlive the work.
//
// A reduction, and the all_to_all beneath it, may concern a part of every block: part(4096, 4096) are the second 4096 elements of
// each, or as many of them as a block has.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace zero {

struct Blocks {
  std::span<const std::int64_t> bounds{};  // in elements: where each rank's block begins, and where the last one ends
  std::size_t width = 1;                   // bytes of an element
  // Of each block a part: where it begins, and how long it is at most, in elements.
  std::size_t first = 0, most = std::numeric_limits<std::size_t>::max();

  bool equal() const { return bounds.empty(); }
  // Local. A part of each of these blocks, whose elements have `bytes` bytes.
  Blocks part(std::size_t from, std::size_t numel, std::size_t bytes) const { return {bounds, bytes, from, numel}; }
  // Local. In bytes, of the `all` bytes that `world` ranks share.
  std::size_t offset(int rank, int world, std::size_t all) const {
    return begin(rank, world, all) + std::min(first, whole(rank, world, all) / width) * width;
  }
  std::size_t size(int rank, int world, std::size_t all) const {
    const std::size_t numel = whole(rank, world, all) / width;
    return std::min(numel - std::min(first, numel), most) * width;
  }
  // Local. In bytes, of all blocks but that of `rank`.
  std::size_t size_of_others(int rank, int world, std::size_t all) const {
    std::size_t sum = 0;
    for (int r = 0; r < world; ++r) sum += r == rank ? 0 : size(r, world, all);
    return sum;
  }
  // Local. They are blocks of `world` ranks that share `all` bytes.
  bool fit(int world, std::size_t all) const {
    if (equal()) return all % static_cast<std::size_t>(world) == 0;
    return bounds.size() == static_cast<std::size_t>(world) + 1 && bounds.front() == 0 &&
           static_cast<std::size_t>(bounds.back()) * width == all;
  }

 private:
  // Of whole blocks.
  std::size_t begin(int rank, int world, std::size_t all) const {
    if (equal()) return all / static_cast<std::size_t>(world) * static_cast<std::size_t>(rank);
    return static_cast<std::size_t>(bounds[static_cast<std::size_t>(rank)]) * width;
  }
  std::size_t whole(int rank, int world, std::size_t all) const {
    if (equal()) return all / static_cast<std::size_t>(world);
    return begin(rank + 1, world, all) - begin(rank, world, all);
  }
};

}  // namespace zero
