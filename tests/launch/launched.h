// Launched: the launcher in its own process, as the command runs it, with its output, its exit status, and signals to
// it.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

#include "app/launch/ranks/launch_options.h"

namespace zero {

struct Outcome {
  int status = -1;  // as in a shell: 128 + signal if the launcher was killed
  std::string output, errors;
};

class Launched {
 public:
  explicit Launched(const LaunchOptions& options);
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  ~Launched();

  void send(int signal) const;
  // Reads until standard output has printed `text`; false after a minute.
  bool wait_for(const std::string& text);
  // The same for standard error.
  bool wait_for_error(const std::string& text);
  // Whether this stream accepts no byte until somebody reads. Reads nothing.
  bool is_full(int stream) const;
  // Whether it has ended by itself. Reads nothing.
  bool is_over() const;
  Outcome finish();

 private:
  bool wait_for_in(const std::string& read, const int& stream, const std::string& text);
  void read_some(int timeout_ms);

  pid_t pid_ = -1;
  int output_ = -1;
  int errors_ = -1;
  Outcome outcome_;
};

// Options for a shell script on `ranks` ranks.
LaunchOptions script(int ranks, const std::string& text);
Outcome run_launch(const LaunchOptions& options);

std::multiset<std::string> lines(const std::string& text);

// Polls until `holds` returns true; false after a minute.
bool eventually(const std::function<bool()>& holds);
// Whether the process exists and is not a zombie.
bool alive(pid_t pid);
// Whether the process has ended and its parent has waited for it.
bool reaped(pid_t pid);
// Whether a pipe, named under /proc/PID/fd/, has no room for one byte.
bool is_full_pipe(const std::string& path);
// Waits until all these processes are gone; false after a minute.
bool all_gone(const std::vector<pid_t>& processes);

}  // namespace zero
