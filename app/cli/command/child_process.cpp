#include "app/cli/command/child_process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"

namespace zero::cli {
namespace {

constexpr std::array kPassedOn{SIGINT, SIGTERM};

volatile std::sig_atomic_t told = 0;
volatile pid_t child = 0;

void pass_on(int signal) {
  told = signal;
  if (child > 0) kill(child, signal);
}

// Signal handlers while a child runs.
class PassedOn {
 public:
  PassedOn() {
    struct sigaction action {};
    action.sa_handler = pass_on;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &action, &before_[i]);
  }
  PassedOn(const PassedOn&) = delete;
  PassedOn& operator=(const PassedOn&) = delete;
  ~PassedOn() {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &before_[i], nullptr);
  }

 private:
  std::array<struct sigaction, kPassedOn.size()> before_{};
};

pid_t spawn(const std::vector<std::string>& words, int output) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDERR_FILENO);
  // A separate process group, so the child receives a terminal's Ctrl-C only once, from this process.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words.front().c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) throw IoError(words.front(), "start", error);
  return pid;
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& words, const std::filesystem::path& output) {
  const FileDescriptor file(open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (file.get() < 0) throw IoError(output.string(), "open", errno);
  told = 0;
  const PassedOn handlers;
  child = spawn(words, file.get());
  if (told != 0) kill(child, told);  // the signal arrived before `child` was set
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  return {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .signal = told};
}

}  // namespace zero::cli
