// The machine: memory and cores that this process may use, within the limits of its container.
//
//   const auto budget = available_memory() / ranks_on_this_host;
//
// Local. `root` stands for "/" in tests.
#pragma once

#include <cstdint>
#include <string>

namespace zero {

// Bytes that may still be taken: the least of MemAvailable and, for this process's control group (v1 or v2) and each
// above it, its memory limit (in version 2 also memory.high, above which it is made to wait) less what it uses and
// could not drop (the page cache it last touched long ago is not counted as used). Never negative. Throws IoError where
// there is no /proc.
std::int64_t available_memory(const std::string& root = "");

// The least of those limits alone; the largest number there is where none is set.
std::int64_t memory_limit(const std::string& root = "");

// How much of the last ten seconds somebody waited for memory, in percent: the kernel's pressure stall information, the
// worse of the whole machine's and this process's control group's (version 2). 0 where the kernel does not tell.
double memory_pressure(const std::string& root = "");

// What the processor calls itself, as /proc/cpuinfo has it; "unknown" where it does not say.
std::string processor_name(const std::string& root = "");

// Cores this process may run on (its affinity), at least 1.
int num_usable_cores();

}  // namespace zero
