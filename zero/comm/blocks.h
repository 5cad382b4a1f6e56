// Blocks: how a span of bytes is divided among ranks, in equal or unequal blocks.
//
//   const std::vector<std::int64_t> bounds{0, 600, 1000};               // elements: rank 0 has 600, rank 1 has 400
//   comm.all_gather(mine, all, {.unit = 3, .blocks = {bounds, sizeof(float)}}).wait();
//
// Without bounds, all blocks are equal. Bounds ascend, and there is one more than there are ranks. They must outlive
// the Work.
//
// A reduction, and the all_to_all that it uses, may cover only a part of every block. part(4096, 4096, sizeof(float))
// selects elements 4096 to 8191 of each block, or fewer if the block ends before.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace zero {

struct Blocks {
  std::span<const std::int64_t> bounds{};  // in elements: the start of each rank's block, and the end of the last
  std::size_t width = 1;                   // bytes of an element
  // Start and largest length, in elements, of the selected part of each block.
  std::size_t first = 0, most = std::numeric_limits<std::size_t>::max();

  bool equal() const { return bounds.empty(); }
  // Local. Selects a part of each of these blocks, whose elements have `bytes` bytes.
  Blocks part(std::size_t from, std::size_t numel, std::size_t bytes) const { return {bounds, bytes, from, numel}; }
  // Local. Return the start and size in bytes of a rank's block, if `world` ranks share `all` bytes.
  std::size_t offset(int rank, int world, std::size_t all) const {
    return begin(rank, world, all) + std::min(first, whole(rank, world, all) / width) * width;
  }
  std::size_t size(int rank, int world, std::size_t all) const {
    const std::size_t numel = whole(rank, world, all) / width;
    return std::min(numel - std::min(first, numel), most) * width;
  }
  // Local. Returns the bytes of all blocks except that of `rank`.
  std::size_t size_of_others(int rank, int world, std::size_t all) const {
    std::size_t sum = 0;
    for (int r = 0; r < world; ++r) sum += r == rank ? 0 : size(r, world, all);
    return sum;
  }
  // Local. Returns true if these blocks divide `all` bytes among `world` ranks.
  bool fit(int world, std::size_t all) const {
    if (equal()) return all % static_cast<std::size_t>(world) == 0;
    return bounds.size() == static_cast<std::size_t>(world) + 1 && bounds.front() == 0 &&
           static_cast<std::size_t>(bounds.back()) * width == all;
  }

 private:
  // Return the start and size in bytes of a rank's whole block.
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
