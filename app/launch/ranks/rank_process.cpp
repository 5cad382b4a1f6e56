#include "app/launch/ranks/rank_process.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

namespace zero {
namespace {

struct Pipe {
  FileDescriptor reader, writer;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw IoError("launcher", "pipe", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const auto& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

// Ignores cores beyond the size of cpu_set_t. A rank with only such cores is unbound, which is correct but slower.
cpu_set_t core_set(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &set);
  }
  return set;
}

struct Child {
  const RankStart& request;
  std::vector<char*> arguments, environment;
  cpu_set_t cores;
  int null_input, output, errors, failure;
  pid_t launcher;

  // Runs between fork and exec, so it makes system calls only.
  [[noreturn]] void run() const {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(127);  // the launcher died before the prctl
    if (CPU_COUNT(&cores) > 0) sched_setaffinity(0, sizeof cores, &cores);
    if (!request.inherit_input) dup2(null_input, STDIN_FILENO);
    if (!request.inherit_output) dup2(output, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    if (request.memory >= 0) fcntl(request.memory, F_SETFD, 0);
    if (request.descriptors) setrlimit(RLIMIT_NOFILE, &*request.descriptors);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &request.signal_mask, nullptr);
    execvpe(arguments[0], arguments.data(), environment.data());
    const int error = errno;
    [[maybe_unused]] const auto written = write(failure, &error, sizeof error);
    _exit(127);
  }
};

void close_fd(int& fd) {
  if (fd >= 0) close(std::exchange(fd, -1));
}

}  // namespace

RankProcess RankProcess::start(const RankStart& request) {
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Pipe failure = make_pipe();
  const FileDescriptor null_input = FileDescriptor::open("/dev/null", O_RDONLY);
  const Child child{request,          pointers(request.program), pointers(request.environment), core_set(request.cores),
                    null_input.get(), output.writer.get(),       errors.writer.get(),           failure.writer.get(),
                    getpid()};
  const pid_t pid = fork();
  if (pid == 0) child.run();
  if (pid < 0) throw IoError(request.program.front(), "fork", errno);
  setpgid(pid, pid);  // parent and child both call it, because either can run first

  failure.writer = FileDescriptor();
  int error = 0;
  ssize_t got = 0;
  while ((got = read(failure.reader.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got > 0) {
    waitpid(pid, nullptr, 0);
    throw ConfigError("program", request.program.front(), std::strerror(error),
                      "give a program that can be run: zero launch [flags] -- PROGRAM [arguments]");
  }
  RankProcess process;
  process.pid_ = pid;
  if (!request.inherit_output) process.output_ = output.reader.release();
  process.errors_ = errors.reader.release();
  for (const int fd : {process.output_, process.errors_}) {
    if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  return process;
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::exchange(other.output_, -1)),
      errors_(std::exchange(other.errors_, -1)),
      reaped_(other.reaped_) {}

RankProcess::~RankProcess() {
  if (running()) {
    send(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close_output();
  close_errors();
}

void RankProcess::close_output() {
  close_fd(output_);
}
void RankProcess::close_errors() {
  close_fd(errors_);
}

void RankProcess::send(int signal) const {
  if (running()) kill(-pid_, signal);
}

std::optional<ProcessEnd> RankProcess::reap() {
  if (!running()) return std::nullopt;
  siginfo_t info{};
  // WNOWAIT keeps the zombie, and so the group's number, while the rest of the group is killed.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  kill(-pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  if (WIFSIGNALED(status)) return ProcessEnd{.signal = WTERMSIG(status)};
  return ProcessEnd{.exit_code = WEXITSTATUS(status)};
}

}  // namespace zero
