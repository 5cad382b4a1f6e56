// StopSignal: SIGINT, SIGTERM and SIGUSR1 as a flag instead of a handler, so a step is always finished.
//
//   StopSignal stop;                    // before the process has other threads: they inherit the blocked signals
//   if (int signal = stop.pending()) ...
//
// While it lives, the signals are blocked and read from a descriptor, so there is no handler and no global state. One
// thread creates it; any thread may call pending(). Local. Throws IoError if the kernel refuses.
#pragma once

#include <atomic>

#include <signal.h>

#include "zero/base/files/file.h"

namespace zero {

class StopSignal {
 public:
  StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal();

  // Returns the number of the first signal that was received, or 0.
  int pending() const;

 private:
  FileDescriptor descriptor_;
  sigset_t before_{};
  mutable std::atomic<int> seen_{0};
};

}  // namespace zero
