// make_memory_file(): makes memory that processes share by passing a descriptor: an anonymous file (memfd).
//
//   FileDescriptor file = make_memory_file("zero.cpp board", bytes);    // zeros
//   Allocation memory = map_memory_file(file.get(), bytes, /*writable=*/true);
//
// It has no name that must be removed. Local; both functions throw IoError.
#pragma once

#include <cstddef>

#include "zero/base/files/file.h"
#include "zero/base/process/allocation.h"

namespace zero {

// Makes the file. `label`: its text in /proc.
FileDescriptor make_memory_file(const char* label, std::size_t bytes);
// Maps a file of that size, shared.
Allocation map_memory_file(int fd, std::size_t bytes, bool writable);

}  // namespace zero
