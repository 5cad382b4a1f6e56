#include "tests/launch/launched.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/launch/launch.h"

namespace zero {
namespace {

using Clock = std::chrono::steady_clock;

void drain(int& fd, std::string& into) {
  std::array<char, 4096> bytes;
  const ssize_t got = read(fd, bytes.data(), bytes.size());
  if (got > 0) into.append(bytes.data(), static_cast<std::size_t>(got));
  if (got == 0) {
    close(fd);
    fd = -1;
  }
}

}  // namespace

Launched::Launched(const LaunchOptions& options) {
  std::array<int, 2> output{}, errors{};
  if (pipe2(output.data(), O_CLOEXEC) != 0 || pipe2(errors.data(), O_CLOEXEC) != 0) std::abort();
  pid_ = fork();
  if (pid_ == 0) {
    dup2(output[1], STDOUT_FILENO);
    dup2(errors[1], STDERR_FILENO);
    for (const int fd : {output[0], output[1], errors[0], errors[1]}) close(fd);
    int status = 99;
    try {
      status = launch(options);
    } catch (const std::exception& error) {
      dprintf(STDERR_FILENO, "%s\n", error.what());
    }
    _exit(status);
  }
  close(output[1]);
  close(errors[1]);
  output_ = output[0];
  errors_ = errors[0];
}

Launched::~Launched() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : {output_, errors_}) {
    if (fd >= 0) close(fd);
  }
}

void Launched::send(int signal) const {
  kill(pid_, signal);
}

void Launched::read_some(int timeout_ms) {
  std::array<pollfd, 2> fds{pollfd{output_, POLLIN, 0}, pollfd{errors_, POLLIN, 0}};
  poll(fds.data(), fds.size(), timeout_ms);
  if (fds[0].revents != 0) drain(output_, outcome_.output);
  if (fds[1].revents != 0) drain(errors_, outcome_.errors);
}

bool Launched::wait_for(const std::string& text) {
  return wait_for_in(outcome_.output, output_, text);
}

bool Launched::wait_for_error(const std::string& text) {
  return wait_for_in(outcome_.errors, errors_, text);
}

bool Launched::wait_for_in(const std::string& read, const int& stream, const std::string& text) {
  const auto deadline = Clock::now() + std::chrono::minutes(1);
  while (read.find(text) == std::string::npos) {
    if (Clock::now() > deadline || stream < 0) return false;
    read_some(100);
  }
  return true;
}

bool Launched::is_full(int stream) const {
  return is_full_pipe("/proc/self/fd/" + std::to_string(stream == STDOUT_FILENO ? output_ : errors_));
}

bool Launched::is_over() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
}

Outcome Launched::finish() {
  while (output_ >= 0 || errors_ >= 0) read_some(1000);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  outcome_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return outcome_;
}

LaunchOptions script(int ranks, const std::string& text) {
  LaunchOptions options;
  options.program = {"/bin/sh", "-c", text};
  options.ranks = ranks;
  return options;
}

Outcome run_launch(const LaunchOptions& options) {
  return Launched(options).finish();
}

bool eventually(const std::function<bool()>& holds) {
  const auto deadline = Clock::now() + std::chrono::minutes(1);
  while (!holds()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return false;
  return line.at(line.rfind(')') + 2) != 'Z';
}

bool reaped(pid_t pid) {
  return kill(pid, 0) != 0 && errno == ESRCH;
}

bool is_full_pipe(const std::string& path) {
  const int writer = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (writer < 0) return false;
  pollfd ready{writer, POLLOUT, 0};
  const bool full = poll(&ready, 1, 0) == 0;
  close(writer);
  return full;
}

std::multiset<std::string> lines(const std::string& text) {
  std::multiset<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.insert(line);
  return out;
}

bool all_gone(const std::vector<pid_t>& processes) {
  return eventually([&] { return std::none_of(processes.begin(), processes.end(), alive); });
}

}  // namespace zero
