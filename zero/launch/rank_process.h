// RankProcess: one rank as a process, from its start to its end.
//
// It is the leader of a process group of its own, so that it can be ended with everything it started; the kernel kills
// it when the launcher dies. Its outputs are pipes, unless `inherit_output`.
//
//   RankProcess rank = RankProcess::start({.program = {"sh", "-c", "exit 3"}, .environment = env});
//   ...poll rank.output() and rank.errors()...
//   if (auto end = rank.reap()) end->exit_code;
//
// Local. start() throws ConfigError when the program cannot be run, IoError when the system refuses a process or pipe.
// The caller is single-threaded (nothing forks once torch has threads) and ignores SIGPIPE.
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
  std::vector<int> cores;                // empty: any
  bool inherit_input = false;            // else /dev/null
  bool inherit_output = false;           // standard output is the launcher's own: a terminal
  int memory = -1;                       // a descriptor beyond the standard three that it inherits under its number
  std::optional<rlimit> descriptors{};   // RLIMIT_NOFILE of the program; unset: the launcher's
  sigset_t signal_mask{};                // of the program; empty by default
};

// How a process ended: one of the two.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  // 0: it exited
};

class RankProcess {
 public:
  static RankProcess start(const RankStart& request);

  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess();  // kills the group when it still runs

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0 && !reaped_; }
  int output() const { return output_; }  // -1 when inherited or closed
  int errors() const { return errors_; }
  void close_output();
  void close_errors();

  // To the whole group; nothing when it has ended.
  void send(int signal) const;
  // Nothing while it runs. When it has ended, whatever it left running in its group is killed first.
  std::optional<ProcessEnd> reap();

 private:
  RankProcess() = default;

  pid_t pid_ = -1;
  int output_ = -1;
  int errors_ = -1;
  bool reaped_ = false;
};

}  // namespace zero
