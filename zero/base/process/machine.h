// available_memory(), num_usable_cores(): the memory and cores that this process may use within its container's limits.
//
//   const auto budget = available_memory() / ranks_on_this_host;
//
// Local. `root` replaces "/" in tests.
#pragma once

#include <cstdint>
#include <string>

namespace zero {

// Returns the bytes that can still be allocated: the minimum of MemAvailable and of the free part of each limit. The
// limits are those of this process's control group (v1 or v2) and of each group above it. In version 2 memory.high also
// counts, because the group is throttled above it. A group's used memory does not include inactive page cache, which
// the kernel can drop. Never negative. Throws IoError without /proc.
std::int64_t available_memory(const std::string& root = "");

// Returns only the lowest of those limits; the largest number if there is none.
std::int64_t memory_limit(const std::string& root = "");

// Returns the percentage of the last ten seconds in which some task waited for memory (the kernel's pressure stall
// information). It is the higher value of the machine and of this process's control group (version 2). 0 if the kernel
// does not report it.
double memory_pressure(const std::string& root = "");

// Returns the processor's name from /proc/cpuinfo; "unknown" if it has none.
std::string processor_name(const std::string& root = "");

// Returns the number of cores on which this process may run (its affinity), at least 1.
int num_usable_cores();

}  // namespace zero
