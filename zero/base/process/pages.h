// map_private(), map_shared(): pages from the kernel: private ones, and those of a memory file that processes share.
//
//   Allocation bytes = map_private(n);                       // zeros; empty and errno set if refused
//   Allocation window = map_shared(fd, n, true);             // the file's bytes
//   use_huge_pages(window.bytes());                          // before the first write
//
// From 2 MiB on a mapping begins at a huge page's boundary, and uses huge pages if possible. This halves the time of a
// large copy. The end of a mapping that does not fill a huge page uses small pages, so it wastes no memory. Local.
#pragma once

#include <cstddef>

#include "zero/base/process/allocation.h"

namespace zero {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Maps `bytes` > 0. Returns an empty Allocation and sets errno if the kernel refuses.
Allocation map_private(std::size_t bytes);
// Reserves only addresses, parts of which become private pages later. make_writable() returns false and sets errno if
// refused.
Allocation reserve_addresses(std::size_t bytes);
bool make_writable(std::span<std::byte> reserved);
Allocation map_shared(int file, std::size_t bytes, bool writable);

// Moves a shared mapping whose file is still empty to huge pages, and allocates the memory at once. It uses
// MADV_COLLAPSE (Linux 6.1). The kernel's setting of huge pages for shared memory, "never" on most systems, does not
// apply to that call. Returns false and changes nothing if the kernel refuses.
bool use_huge_pages(std::span<std::byte> shared);

// Returns the whole pages within a part of a mapping to the system. They then read as zeros in every process that
// shares them. The addresses stay mapped.
void drop_pages(std::span<std::byte> mapped);

}  // namespace zero
