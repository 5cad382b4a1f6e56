// allocate_host(): main memory from the kernel: zeroed, page-aligned, on huge pages if possible.
//
//   Allocation bytes = allocate_host(n);      // mmap + madvise(MADV_HUGEPAGE); unmapped on destruction
#pragma once

#include <cstddef>

#include "zero/base/process/allocation.h"

namespace zero {

// Local. size() is `bytes`; the mapping is rounded up to a page, and from 2 MiB on it begins at a multiple of 2 MiB.
// Throws ConfigError ("memory") if the kernel refuses. 0 bytes give an empty Allocation.
Allocation allocate_host(std::size_t bytes);

// Makes glibc keep freed memory instead of returning it to the kernel between steps. That saves page faults, which cost
// a CPU training step up to a quarter of its time. It changes the host program's allocator, so `zero train` calls it
// and attach() does not. Fragmentation (blocks of changing size that fit no hole) raises peak memory. Call it first in
// main(): existing mappings, and arenas of running threads, stay. Local. Idempotent; returns false if the C library has
// no such setting.
bool keep_heap();

}  // namespace zero
