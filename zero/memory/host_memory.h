// Main memory, straight from the kernel: zeroed, page-aligned, on huge pages where they can be had.
//
//   Allocation bytes = allocate_host(n);      // mmap + madvise(MADV_HUGEPAGE); returned to the kernel when destroyed
//
// And the process's own heap: keep_heap() makes glibc keep freed memory instead of returning it to the kernel between
// steps, which saves the page faults that cost a CPU training step up to a quarter of its time. It changes the
// host program's allocator, so `zero train` calls it and attach() does not.
//
// It costs peak memory, by fragmentation (blocks of changing size that no hole fits). Call it first in main(): blocks
// that are mappings already stay mappings, and so do the arenas of threads that run already.
#pragma once

#include <cstddef>

#include "zero/base/allocation.h"

namespace zero {

// Local. size() is `bytes`; the mapping is that rounded up to a page, and from 2 MiB on it begins on a boundary of 2
// MiB. Throws ConfigError ("memory") when the kernel refuses. 0 bytes gives an empty Allocation.
Allocation allocate_host(std::size_t bytes);

// Local. Idempotent; false where the C library has no such setting.
bool keep_heap();

}  // namespace zero
