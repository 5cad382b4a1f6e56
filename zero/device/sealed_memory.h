// SealedMemory: memory that the host has the addresses of and cannot touch. A host access faults (SIGSEGV).
//
//   SealedMemory memory(bytes);
//   memory.sealed();                    // the addresses that others have
//   memory.own(memory.sealed().data()); // the same byte, for the device
//
// A file in memory, mapped twice. Local.
#pragma once

#include <cstddef>
#include <span>

#include "zero/base/allocation.h"

namespace zero {

class SealedMemory {
 public:
  // Zeros; `bytes` > 0. Throws ConfigError ("memory") where the system has too little.
  explicit SealedMemory(std::size_t bytes);

  std::span<std::byte> sealed() const { return sealed_.bytes(); }
  std::byte* own(const std::byte* sealed) const { return own_.data() + (sealed - sealed_.data()); }

 private:
  Allocation sealed_, own_;
};

// Lets the host read, or also write, the pages with these bytes, or none of both again. For all threads: a kernel's
// host code may use several, which a protection key, being a thread's, would not reach.
enum class Seal { kClosed, kReadable, kWritable };
void set_seal(std::span<const std::byte> sealed, Seal seal);

// The whole pages in which the bytes lie.
std::span<const std::byte> pages_of(std::span<const std::byte> bytes);

}  // namespace zero
