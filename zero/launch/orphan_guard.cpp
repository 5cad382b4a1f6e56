#include "zero/launch/orphan_guard.h"

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

#include "zero/base/error.h"

namespace zero {
namespace {

constexpr std::size_t kMostGroups = 4096;

// Keeps nothing of the launcher's open: a reader of its output must see the end when the launcher is gone.
void close_all_but(int kept) {
  syscall(SYS_close_range, 0U, static_cast<unsigned>(kept) - 1, 0U);
  syscall(SYS_close_range, static_cast<unsigned>(kept) + 1, ~0U, 0U);
}

// A positive number is a group to watch, a negative one a group to forget; end of file is the launcher's end.
[[noreturn]] void guard_main(int pipe) {
  prctl(PR_SET_NAME, "zero-guard");
  setsid();  // Ctrl-C and the end of the terminal are for the launcher to answer
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
  // The loops above assume that the pipe is not one of the three standard descriptors.
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
  kill(pid_, SIGCONT);  // somebody may have stopped it
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
}

void OrphanGuard::watch(pid_t group) {
  tell(group);
}
void OrphanGuard::forget(pid_t group) {
  tell(-group);
}

void OrphanGuard::tell(pid_t message) {
  // A guard that somebody killed costs the second line of defence, not the run.
  while (write(pipe_, &message, sizeof message) < 0 && errno == EINTR) {
  }
}

}  // namespace zero
