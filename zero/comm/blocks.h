// Blocks: how a span of bytes is divided among ranks, equally or not.
//
//   const std::vector<std::int64_t> bounds{0, 600, 1000};               // elements: rank 0 has 600, rank 1 has 400
//   comm.all_gather(mine, all, {.unit = 3, .blocks = {bounds, sizeof(float)}}).wait();
//
// Without bounds all blocks are equal. Bounds rise; there is one more than there are ranks. They outlive the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace zero {

struct Blocks {
  std::span<const std::int64_t> bounds{};  // in elements: where each rank's block begins, and where the last one ends
  std::size_t width = 1;                   // bytes of an element

  bool equal() const { return bounds.empty(); }
  // Local. In bytes, of the `all` bytes that `world` ranks share.
  std::size_t offset(int rank, int world, std::size_t all) const {
    if (equal()) return all / static_cast<std::size_t>(world) * static_cast<std::size_t>(rank);
    return static_cast<std::size_t>(bounds[static_cast<std::size_t>(rank)]) * width;
  }
  std::size_t size(int rank, int world, std::size_t all) const {
    if (equal()) return all / static_cast<std::size_t>(world);
    return offset(rank + 1, world, all) - offset(rank, world, all);
  }
  // Local. They are blocks of `world` ranks that share `all` bytes.
  bool fit(int world, std::size_t all) const {
    if (equal()) return all % static_cast<std::size_t>(world) == 0;
    return bounds.size() == static_cast<std::size_t>(world) + 1 && bounds.front() == 0 &&
           static_cast<std::size_t>(bounds.back()) * width == all;
  }
};

}  // namespace zero
