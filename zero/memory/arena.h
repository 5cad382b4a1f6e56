// Arena: large blocks of changing sizes, side by side in one range of addresses, kept between uses.
//
// A step's activations and gradients come and go in the same order every step. Among small blocks that stay, the C
// library's heap cannot join the holes they leave, and grows by hundreds of MiB; given back to the kernel, they cost
// page faults in every step. Here large blocks have addresses of their own: the lowest hole that is large enough
// serves, neighbouring holes are one, and the pages stay, huge ones where they can be had.
//
//   Arena arena(std::size_t{1} << 40);                  // addresses, no memory
//   std::byte* block = arena.allocate(154 << 20);       // null: no hole is large enough
//   arena.release(block);
//
// Local. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>

#include "zero/base/allocation.h"

namespace zero {

class Arena {
 public:
  static constexpr std::size_t kGranule = std::size_t{64} << 10;  // blocks begin at its multiples

  // If the system does not give that many addresses, allocate() always returns null.
  explicit Arena(std::size_t address_bytes);

  // Null, too, where the system promises no more memory.
  std::byte* allocate(std::size_t bytes);
  void release(std::byte* block);
  // Whether the address lies in the arena.
  bool holds(const void* address) const;

  // The end of the highest block there has been: what the arena can have taken of memory.
  std::size_t touched_bytes() const;

 private:
  bool extend_to(std::size_t end);

  Allocation addresses_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> holes_;             // offset: bytes; never two that touch
  std::unordered_map<std::size_t, std::size_t> blocks_;  // offset: bytes
  std::size_t touched_bytes_ = 0;
  std::size_t writable_bytes_ = 0;
};

}  // namespace zero
