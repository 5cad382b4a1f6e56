// WatchedCommand: a command and all its descendants, which a test observes and strikes from outside.
//
//   WatchedCommand command({"zero", "launch", "--nproc-per-node", "3", "--", "worker"});
//   kill(command.wait_for_rank(1), SIGKILL);
//   command.gone_before(Clock::now() + 2s);   command.finish();   command.text();
//
// The command and its descendants share an environment variable. By it they are found in /proc, whatever their parent
// is. A process that has ended but is not reaped does not count. All waits read the command's output, so no process
// blocks on a full pipe. The destructor kills all processes that are left.
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
  int rank = -1;  // from RANK or OMPI_COMM_WORLD_RANK; -1: the command itself, or its guard
};

// Every living process that a WatchedCommand of this program started, directly or indirectly.
std::vector<pid_t> living_of_all_commands();

class WatchedCommand {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;

  // Throws std::system_error if the system refuses a process. If the program does not exist, the command ends with
  // status 127.
  explicit WatchedCommand(const std::vector<std::string>& program, const Variables& environment = {});
  WatchedCommand(const WatchedCommand&) = delete;
  WatchedCommand& operator=(const WatchedCommand&) = delete;
  ~WatchedCommand();

  // The output so far: standard output and standard error in order of arrival.
  const std::string& text() const { return text_; }
  pid_t pid() const { return pid_; }
  // Sends a signal to the command itself.
  void send(int signal) const;

  std::vector<WatchedProcess> living() const;
  // Records the sockets at which its processes can be met now. sockets_left() are the recorded sockets that are still
  // open, in any process.
  void look_for_sockets();
  const OpenSockets& sockets_seen() const { return sockets_; }
  OpenSockets sockets_left() const;
  // The functions below return false, or -1, if the event did not happen within a minute or before `deadline`, or if
  // the command ended first.
  pid_t wait_for_rank(int rank);
  bool wait_for(const std::string& text, std::size_t from = 0);  // in text() from this position on
  // Reads output until `moment`, or until the command has ended.
  void read_until(Clock::time_point moment);
  bool ranks_gone_before(Clock::time_point deadline);
  bool gone_before(Clock::time_point deadline);
  bool sockets_gone_before(Clock::time_point deadline);
  // The exit status as in a shell: 128 + signal if it was killed.
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
  OpenSockets sockets_;  // all that were recorded
};

}  // namespace zero
