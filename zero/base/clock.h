// Time: one clock to measure with, and one that the kernel dates processes by.
//
//   const double begin = monotonic_seconds();   ...   const double spent = monotonic_seconds() - begin;
//   const double startup = boot_seconds() - process_start_seconds();   // since the kernel started this process
//
// Local. Seconds, as double: microseconds are kept for centuries.
#pragma once

#include <sys/types.h>

namespace zero {

double monotonic_seconds();

// Since the machine was booted, time asleep included: the clock of process_start_seconds().
double boot_seconds();

// When a process was started, in boot_seconds(), to the kernel's tick (10 ms): getppid() dates the launcher. 0: this
// one. Throws IoError when there is no such process.
double process_start_seconds(pid_t process = 0);

}  // namespace zero
