// SIGINT, SIGTERM and SIGUSR1, asked for instead of delivered: a step is always finished.
//
//   StopSignal stop;                    // before the process has other threads: they inherit what is blocked
//   if (int signal = stop.pending()) ...
//
// The signals are blocked while this lives and read from a descriptor, so there is no handler and no global state. Made
// in one thread, asked in any. Local. Throws IoError when the kernel refuses.
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

  // The number of the signal that came first, or 0.
  int pending() const;

 private:
  FileDescriptor descriptor_;
  sigset_t before_{};
  mutable std::atomic<int> seen_{0};
};

}  // namespace zero
