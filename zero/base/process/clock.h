// monotonic_seconds(): the clock for measurements. boot_seconds(): the clock of process start times.
//
//   const double begin = monotonic_seconds();   ...   const double spent = monotonic_seconds() - begin;
//   const double startup = boot_seconds() - process_start_seconds();   // since the kernel started this process
//
// Local. Seconds as double, which keep microseconds for centuries.
#pragma once

#include <sys/types.h>

namespace zero {

double monotonic_seconds();

// Returns the seconds since the machine was booted, including sleep: the clock of process_start_seconds().
double boot_seconds();

// Returns the start of a process in boot_seconds(), with the kernel's resolution (10 ms). 0: this process; getppid():
// for example the launcher. Throws IoError if there is no such process.
double process_start_seconds(pid_t process = 0);

}  // namespace zero
