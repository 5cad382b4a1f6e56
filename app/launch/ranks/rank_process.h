// RankProcess: one rank as a process, from its start to its end.
//
//   RankProcess rank = RankProcess::start({.program = {"sh", "-c", "exit 3"}, .environment = env});
//   ...poll rank.output() and rank.errors()...
//   if (auto end = rank.reap()) end->exit_code;
//
// The process leads its own process group, so the processes that it started end with it. The kernel kills it when the
// launcher dies. Its outputs are pipes, unless `inherit_output`.
//
// Local. start() throws ConfigError if the program cannot be run, and IoError if the system refuses a process or a
// pipe. The caller has one thread (no forks after torch has started threads) and ignores SIGPIPE.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

namespace zero {

struct RankStart {
  std::vector<std::string> program;
  std::vector<std::string> environment;  // "KEY=VALUE"
  std::vector<int> cores;                // empty: any cores
  bool inherit_input = false;            // false: standard input is /dev/null
  bool inherit_output = false;           // standard output is the launcher's terminal
  int memory = -1;                       // a non-standard descriptor that the process inherits under the same number
  std::optional<rlimit> descriptors{};   // RLIMIT_NOFILE of the program; unset: the launcher's
  sigset_t signal_mask{};                // mask of the program; empty by default
};

// The end of a process: an exit code or a signal.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  // 0: it exited
};

class RankProcess {
 public:
  static RankProcess start(const RankStart& request);

  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess();  // kills the group if the rank still runs

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0 && !reaped_; }
  int output() const { return output_; }  // -1 when inherited or closed
  int errors() const { return errors_; }
  void close_output();
  void close_errors();

  // Sends a signal to the whole group, unless the rank has ended.
  void send(int signal) const;
  // Returns the end of the rank; nullopt while it runs. First kills processes that are left in its group.
  std::optional<ProcessEnd> reap();

 private:
  RankProcess() = default;

  pid_t pid_ = -1;
  int output_ = -1;
  int errors_ = -1;
  bool reaped_ = false;
};

}  // namespace zero
