#include "app/cli/command/child_process.h"

#include <cerrno>

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

namespace zero::cli {
namespace {

volatile std::sig_atomic_t told = 0;
volatile pid_t child = 0;

void pass_on(int signal) {
  told = signal;
  if (child > 0) kill(child, signal);
}

// Blocks the caught signals, so a signal is passed on after `child` is set, and is passed on once.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : kCaughtSignals) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_{};
};

struct ChildStart {
  std::vector<char*> arguments;
  int input, output, failure;
  pid_t parent;
  const sigset_t& mask;

  // Runs between fork and exec, so it makes system calls only.
  [[noreturn]] void run() const {
    setpgid(0, 0);  // so a terminal's Ctrl-C reaches the child only once, from the parent
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);  // the parent died before the prctl
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    for (const int number : kCaughtSignals) {
      struct sigaction action {};
      sigaction(number, nullptr, &action);
      if (action.sa_handler == pass_on) signal(number, SIG_DFL);
    }
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execv(arguments.front(), arguments.data());
    const int error = errno;
    [[maybe_unused]] const auto written = write(failure, &error, sizeof error);
    _exit(127);
  }
};

pid_t spawn(const std::vector<std::string>& words, int output, const sigset_t& mask) {
  const FileDescriptor input = FileDescriptor::open("/dev/null", O_RDONLY);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw IoError(words.front(), "start", errno);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  ChildStart start{{}, input.get(), output, writer.get(), getpid(), mask};
  for (const std::string& word : words) start.arguments.push_back(const_cast<char*>(word.c_str()));
  start.arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) start.run();
  if (pid < 0) throw IoError(words.front(), "start", errno);
  setpgid(pid, pid);  // parent and child both call it, because either can run first
  writer = FileDescriptor();
  int error = 0;
  ssize_t got = 0;
  while ((got = read(reader.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got <= 0) return pid;
  waitpid(pid, nullptr, 0);
  throw IoError(words.front(), "start", error);
}

}  // namespace

CaughtSignals::CaughtSignals() {
  const BlockedSignals blocked;
  struct sigaction action {};
  action.sa_handler = pass_on;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCaughtSignals.size(); ++i) {
    sigaction(kCaughtSignals[i], &action, &before_[i]);
    if (kCaughtSignals[i] == SIGHUP && before_[i].sa_handler == SIG_IGN) sigaction(SIGHUP, &before_[i], nullptr);
  }
  if (before_.front().sa_handler != pass_on) told = 0;  // the outermost object
}

CaughtSignals::~CaughtSignals() {
  for (std::size_t i = 0; i < kCaughtSignals.size(); ++i) sigaction(kCaughtSignals[i], &before_[i], nullptr);
}

int CaughtSignals::caught() {
  return told;
}

ChildEnd run_child(const std::vector<std::string>& words, const std::filesystem::path& output) {
  const FileDescriptor file(open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (file.get() < 0) throw IoError(output.string(), "open", errno);
  const CaughtSignals signals;
  {
    const BlockedSignals blocked;
    if (told != 0) return {.status = 128 + told, .signal = told};
    child = spawn(words, file.get(), blocked.before());
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .signal = told};
}

}  // namespace zero::cli
