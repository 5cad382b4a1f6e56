// WatchedCommand: a command and every process that comes of it, watched and struck from outside.
//
//   WatchedCommand command({"zero", "launch", "--nproc-per-node", "3", "--", "worker"});
//   kill(command.wait_for_rank(1), SIGKILL);
//   command.gone_before(Clock::now() + 2s);   command.finish();   command.text();
//
// The command gets an environment variable of its own, which all that it starts inherits: so its processes are found in
// /proc whoever their parent is by then. A process that has ended and only waits to be reaped does not count. While it
// waits for anything it reads what the command prints, so that nobody blocks on a full pipe. The destructor kills
// whatever is left.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "tests/faults/open_sockets.h"

namespace zero {

using Clock = std::chrono::steady_clock;

struct WatchedProcess {
  pid_t pid = -1;
  int rank = -1;  // as RANK or OMPI_COMM_WORLD_RANK says; -1: the command itself, or its guard
};

// Every living process that a WatchedCommand of this program started, at whatever remove.
std::vector<pid_t> living_of_all_commands();

class WatchedCommand {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // Throws std::system_error when the system refuses a process; a program that is not there ends with status 127.
  explicit WatchedCommand(const std::vector<std::string>& program, const Variables& environment = {});
  WatchedCommand(const WatchedCommand&) = delete;
  WatchedCommand& operator=(const WatchedCommand&) = delete;
  ~WatchedCommand();

  // What it prints, standard output and standard error as they come.
  const std::string& text() const { return text_; }
  pid_t pid() const { return pid_; }
  // To the command itself.
  void send(int signal) const;

  std::vector<WatchedProcess> living() const;
  // Looks where its processes can be met now; what any look found and is still open, whoever has it.
  void look_for_sockets();
  const OpenSockets& sockets_seen() const { return sockets_; }
  OpenSockets sockets_left() const;
  // Any of these is false, or -1, when it did not happen in a minute, or before `deadline`, or the command ended
  // without.
  pid_t wait_for_rank(int rank);
  bool wait_for(const std::string& text, std::size_t from = 0);  // in text() from that place on
  // Reads what it prints until then, or until it has ended.
  void read_until(Clock::time_point moment);
  bool ranks_gone_before(Clock::time_point deadline);
  bool gone_before(Clock::time_point deadline);
  bool sockets_gone_before(Clock::time_point deadline);
  // Its exit status as a shell gives it: 128 + signal when it was killed.
  int finish();

 private:
  bool until(const std::function<bool()>& holds, Clock::time_point deadline);
  void read_output(int timeout_ms);
  bool ended();

  std::string mark_;  // "NAME=value"
  pid_t pid_ = -1;
  int output_ = -1;
  int status_ = -1;
  std::string text_;
  OpenSockets sockets_;  // that were seen
};

}  // namespace zero
