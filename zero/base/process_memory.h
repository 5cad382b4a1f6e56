// Process memory: bytes of memory that this process has, as the kernel counts them.
//
//   resident      pages in memory, those shared with other processes included (VmRSS)
//   peak          the highest that resident has been (VmHWM)
//   proportional  resident, with each shared page divided by the number of its sharers (Pss): what ranks of one machine,
//                 which read each other's windows, may add up. The kernel walks every page: milliseconds, not for a
//                 loop
//
// Local. Throws IoError where the kernel does not tell.
#pragma once

#include <cstdint>

namespace zero {

std::int64_t resident_bytes();
std::int64_t peak_resident_bytes();
std::int64_t proportional_bytes();

}  // namespace zero
