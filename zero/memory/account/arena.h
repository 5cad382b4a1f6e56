// Arena: large blocks of changing sizes in one range of addresses, whose memory is kept between uses.
//
//   Arena arena(std::size_t{1} << 40);                  // addresses, no memory
//   std::byte* block = arena.allocate(154 << 20);       // null: no hole is large enough
//   arena.release(block);
//
// A step's activations and gradients are allocated and freed in the same order every step. The C library's heap cannot
// join their holes between small blocks that stay, and grows by hundreds of MiB. If it returned the memory to the
// kernel, every step would have page faults. The arena takes the lowest hole that is large enough, joins neighbouring
// holes, and keeps the pages, huge pages if possible. Local. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>

#include "zero/base/process/allocation.h"

namespace zero {

class Arena {
 public:
  static constexpr std::size_t kGranule = std::size_t{64} << 10;  // alignment of blocks

  // If the system refuses the addresses, allocate() always returns null.
  explicit Arena(std::size_t address_bytes);

  // Returns null if no hole is large enough, or if the system grants no more memory.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* block);
  // Returns whether the address is within the arena.
  bool holds(const void* address) const;

  // Returns the end of the highest block so far: the most memory that the arena can have taken.
  std::size_t touched_bytes() const;

 private:
  bool extend_to(std::size_t end);

  Allocation addresses_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> holes_;             // offset: bytes; adjacent holes are joined
  std::unordered_map<std::size_t, std::size_t> blocks_;  // offset: bytes
  std::size_t touched_bytes_ = 0;
  std::size_t writable_bytes_ = 0;
};

}  // namespace zero
