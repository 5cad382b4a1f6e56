#include "app/launch/ranks/orphan_guard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

constexpr std::size_t kMostGroups = 4096;

// Closes the launcher's files: a reader of its output must see the end of file when the launcher is gone.
void close_all_but(int kept) {
  syscall(SYS_close_range, 0U, static_cast<unsigned>(kept) - 1, 0U);
  syscall(SYS_close_range, static_cast<unsigned>(kept) + 1, ~0U, 0U);
}

// Reads messages: a positive number is a group to watch, a negative number a group to forget. End of file means that
// the launcher has ended.
[[noreturn]] void guard_main(int pipe) {
  prctl(PR_SET_NAME, "zero-guard");
  setsid();  // only the launcher handles Ctrl-C and the end of the terminal
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  close_all_but(pipe);
  std::array<pid_t, kMostGroups> groups{};
  std::size_t count = 0;
  pid_t message = 0;
  while (true) {
    const ssize_t got = read(pipe, &message, sizeof message);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(sizeof message)) break;
    if (message > 0 && count < groups.size()) groups[count++] = message;
    if (message < 0) {
      auto* end = std::remove(groups.begin(), groups.begin() + count, -message);
      count = static_cast<std::size_t>(end - groups.begin());
    }
  }
  for (std::size_t i = 0; i < count; ++i) kill(-groups[i], SIGKILL);
  _exit(0);
}

}  // namespace

OrphanGuard::OrphanGuard() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw IoError("launcher", "pipe", errno);
  // close_all_but() needs a pipe that is not one of the three standard descriptors.
  const int reader = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
  close(ends[0]);
  pipe_ = ends[1];
  pid_ = fork();
  if (pid_ == 0) {
    close(pipe_);
    guard_main(reader);
  }
  const int error = errno;
  close(reader);
  if (pid_ < 0) {
    close(pipe_);
    throw IoError("launcher", "fork", error);
  }
}

OrphanGuard::~OrphanGuard() {
  close(pipe_);
  kill(pid_, SIGCONT);  // the guard may have been stopped
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

void OrphanGuard::watch(pid_t group) {
  send(group);
}
void OrphanGuard::forget(pid_t group) {
  send(-group);
}

void OrphanGuard::send(pid_t message) {
  // If the guard was killed, the run continues with only the kernel's protection.
  while (write(pipe_, &message, sizeof message) < 0 && errno == EINTR) {
  }
}

}  // namespace zero
