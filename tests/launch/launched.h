// The launcher in a process of its own, as the command runs it: its output, its exit status, and signals to it.
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
  int status = -1;  // as a shell says it: 128 + signal when the launcher itself was killed
  std::string output, errors;
};

class Launched {
 public:
  explicit Launched(const LaunchOptions& options);
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  ~Launched();

  void send(int signal) const;
  // Reads until `text` has been printed on standard output; false after a minute.
  bool wait_for(const std::string& text);
  // The same of standard error.
  bool wait_for_error(const std::string& text);
  // Whether its standard output, or standard error, takes nothing more until somebody reads; reads nothing.
  bool is_full(int stream) const;
  // Whether it has ended by itself; reads nothing.
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

// Options for a shell script on so many ranks.
LaunchOptions script(int ranks, const std::string& text);
Outcome run_launch(const LaunchOptions& options);

std::multiset<std::string> lines(const std::string& text);

// Polls until it holds; false after a minute.
bool eventually(const std::function<bool()>& holds);
// Whether a process exists and is no zombie.
bool alive(pid_t pid);
// Whether its parent has been told of its end.
bool reaped(pid_t pid);
// Whether a pipe, named under /proc/PID/fd/, has no room for a byte more.
bool is_full_pipe(const std::string& path);
// In the end.
bool all_gone(const std::vector<pid_t>& processes);

}  // namespace zero
