// Pages from the kernel: private ones, and those of a memory file that processes share. From 2 MiB on a mapping begins
// on a huge page's boundary and lies on huge pages where they can be had, which halves the time of a large copy.
//
//   Allocation bytes = map_private(n);                       // zeros; empty and errno set when refused
//   Allocation window = map_shared(fd, n, true);             // the file's bytes
//   use_huge_pages(window.bytes());                          // before the first write
//
// The end of a mapping that does not fill a huge page lies on small pages, and costs no unused memory. Local.
#pragma once

#include <cstddef>

#include "zero/base/allocation.h"

namespace zero {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// `bytes` > 0. An empty Allocation, with errno, when the kernel refuses.
Allocation map_private(std::size_t bytes);
// Addresses alone, of which parts become private pages later. make_writable() is false, with errno, when refused.
Allocation reserve_addresses(std::size_t bytes);
bool make_writable(std::span<std::byte> reserved);
Allocation map_shared(int file, std::size_t bytes, bool writable);

// Puts a shared mapping whose file is still empty on huge pages. The kernel's own setting for shared memory is "never"
// on most systems; this is the request that it does not apply to (MADV_COLLAPSE, Linux 6.1). The memory is taken at
// once. False, and nothing changed, where the kernel does not.
bool use_huge_pages(std::span<std::byte> shared);

// Gives the whole pages within a mapping's part back to the system; they read as zeros from then on, in every process
// that shares them. The addresses stay.
void drop_pages(std::span<std::byte> mapped);

}  // namespace zero
