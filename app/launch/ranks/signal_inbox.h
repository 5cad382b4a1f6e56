// SignalInbox: a descriptor from which a launcher reads its signals.
//
//   SignalInbox inbox;   poll({inbox.fd(), POLLIN});   while (const int signal = inbox.take()) ...
//
// The destructor restores the earlier signal handling. Local; one at a time, in a process without threads. Throws
// IoError if the system has no descriptor left.
#pragma once

#include <signal.h>

#include "zero/base/files/file.h"

namespace zero {

class SignalInbox {
 public:
  SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }
  // Returns the next signal; 0: none. Does not return SIGCHLD, which only wakes the launcher up.
  int take();

 private:
  sigset_t before_{};
  sighandler_t old_pipe_ = SIG_DFL;
  FileDescriptor fd_;
};

}  // namespace zero
