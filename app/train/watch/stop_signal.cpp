#include "app/train/watch/stop_signal.h"

#include <cerrno>

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "zero/base/error/error.h"

namespace zero {

StopSignal::StopSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  if (const int error = pthread_sigmask(SIG_BLOCK, &signals, &before_); error != 0)
    throw IoError("signals", "block", error);
  descriptor_ = FileDescriptor(::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (descriptor_.get() < 0) {
    const int error = errno;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    throw IoError("signals", "signalfd", error);
  }
}

// A second signal, or one that came after the last pending(), must not end a process that has already stopped as
// requested.
StopSignal::~StopSignal() {
  signalfd_siginfo info;
  while (::read(descriptor_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

int StopSignal::pending() const {
  if (const int signal = seen_.load(); signal != 0) return signal;
  signalfd_siginfo info;
  if (::read(descriptor_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    seen_.store(static_cast<int>(info.ssi_signo));
  }
  return seen_.load();
}

}  // namespace zero
