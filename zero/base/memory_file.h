// Memory that processes share by passing a descriptor: an anonymous file (memfd) without a name to clean up.
//
//   FileDescriptor file = make_memory_file("zero.cpp board", bytes);    // zeros
//   Allocation memory = map_memory_file(file.get(), bytes, /*writable=*/true);
//
// Local; both throw IoError.
#pragma once

#include <cstddef>

#include "zero/base/allocation.h"
#include "zero/base/file.h"

namespace zero {

// `label` is what /proc shows of it.
FileDescriptor make_memory_file(const char* label, std::size_t bytes);
// Maps a file of that size, shared.
Allocation map_memory_file(int fd, std::size_t bytes, bool writable);

}  // namespace zero
