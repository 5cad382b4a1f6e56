// resident_bytes(), peak_resident_bytes(): this process's memory, as the kernel counts it.
//
//   resident      pages in memory, including those shared with other processes (VmRSS)
//   peak          the maximum of resident so far (VmHWM)
//   proportional  resident, with each shared page divided by the number of its sharers (Pss): the ranks of a machine
//                 share windows, and may sum it. The kernel walks every page, which takes milliseconds: not for loops
//
// Local. Throws IoError if the kernel does not report it.
#pragma once

#include <cstdint>

namespace zero {

std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();
std::int64_t proportional_bytes();

}  // namespace zero
