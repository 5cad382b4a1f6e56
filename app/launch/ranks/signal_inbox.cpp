#include "app/launch/ranks/signal_inbox.h"

#include <cerrno>

#include <sys/signalfd.h>
#include <unistd.h>

#include "zero/base/error/error.h"

namespace zero {

SignalInbox::SignalInbox() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction before {};
    // nohup, or `&` in a script, ignores this signal. If it were blocked, the launcher would still receive it.
    if (sigaction(signal, nullptr, &before) != 0 || before.sa_handler != SIG_IGN) sigaddset(&watched, signal);
  }
  sigprocmask(SIG_BLOCK, &watched, &before_);
  old_pipe_ = ::signal(SIGPIPE, SIG_IGN);
  fd_ = FileDescriptor(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd_.get() < 0) throw IoError("launcher", "signalfd", errno);
}

SignalInbox::~SignalInbox() {
  ::signal(SIGPIPE, old_pipe_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int SignalInbox::take() {
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo != SIGCHLD) return static_cast<int>(info.ssi_signo);
  }
  return 0;
}

}  // namespace zero
