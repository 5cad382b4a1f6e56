// SignalInbox: makes the signals that concern a launcher readable. The earlier handling comes back at the end.
//
//   SignalInbox inbox;   poll({inbox.fd(), POLLIN});   while (const int signal = inbox.take()) ...
//
// Local; one at a time, in a process without threads. Throws IoError when the system has no descriptor left.
#pragma once

#include <signal.h>

#include "zero/base/file.h"

namespace zero {

class SignalInbox {
 public:
  SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  int fd() const { return fd_.get(); }
  const sigset_t& before() const { return before_; }
  // 0 when there is none. SIGCHLD is only a wake-up.
  int take();

 private:
  sigset_t before_{};
  sighandler_t old_pipe_ = SIG_DFL;
  FileDescriptor fd_;
};

}  // namespace zero
