// SealedMemory: memory with addresses that the host must not access: a host access faults (SIGSEGV).
//
//   SealedMemory memory(bytes);
//   memory.sealed();                    // the addresses for others
//   memory.own(memory.sealed().data()); // the same byte, for the device
//
// It is a file in memory that is mapped twice. Local.
#pragma once

#include <cstddef>
#include <span>

#include "zero/base/process/allocation.h"

namespace zero {

class SealedMemory {
 public:
  // Makes zeroed memory; `bytes` > 0. Throws ConfigError ("memory") if the system has too little.
  explicit SealedMemory(std::size_t bytes);

  std::span<std::byte> sealed() const { return sealed_.bytes(); }
  std::byte* own(const std::byte* sealed) const { return own_.data() + (sealed - sealed_.data()); }

 private:
  Allocation sealed_, own_;
};

// Sets the host's access to the pages with these bytes: none, read, or read and write. It applies to all threads,
// because a kernel's host code may use several; a protection key would apply to one thread.
enum class Seal { kClosed, kReadable, kWritable };
void set_seal(std::span<const std::byte> sealed, Seal seal);

// Returns the whole pages that contain the bytes.
std::span<const std::byte> pages_of(std::span<const std::byte> bytes);

}  // namespace zero
