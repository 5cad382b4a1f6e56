// NoBrokenPipes: blocks SIGPIPE, because Gloo writes to sockets without MSG_NOSIGNAL. If the other end of a socket is
// closed during its lifetime, this thread and threads that it starts get an error, and no signal.
#pragma once

#include <signal.h>

namespace zero_gloo {

class NoBrokenPipes {
 public:
  NoBrokenPipes() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipes() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipes(const NoBrokenPipes&) = delete;
  NoBrokenPipes& operator=(const NoBrokenPipes&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

}  // namespace zero_gloo
