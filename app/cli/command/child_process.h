// run_child(): runs another program to its end, with its output in a file.
//
//   ChildEnd end = run_child({"/usr/bin/zero", "train", ...}, "sweep/stage-0.log");
//   end.signal           // the signal that this process received meanwhile and passed on; 0: none
//
// It passes SIGINT, SIGTERM, SIGHUP and SIGUSR1 to the child, and restores the earlier handling at the end. A SIGHUP
// that nohup ignores stays ignored. If this process is killed, the kernel sends SIGTERM to the child. Local; from the
// main thread, one at a time. Throws IoError if the file cannot be opened or no process can be started.
#pragma once

#include <array>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

namespace zero::cli {

inline constexpr std::array kCaughtSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// CaughtSignals: while an object lives, these signals do not end this process, so it can remove its files.
//
//   const CaughtSignals signals;
//   ...
//   if (CaughtSignals::caught() != 0) return 128 + CaughtSignals::caught();
//
// run_child() starts no program after a signal that an object around it has caught. Local; in the main thread.
class CaughtSignals {
 public:
  CaughtSignals();
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
  ~CaughtSignals();

  // Returns the last signal since the outermost object began; 0: none.
  static int caught();

 private:
  std::array<struct sigaction, kCaughtSignals.size()> before_{};
};

struct ChildEnd {
  int status = 0;  // as in a shell: 128 + n if signal n ended the child
  int signal = 0;
};

ChildEnd run_child(const std::vector<std::string>& words, const std::filesystem::path& output);

}  // namespace zero::cli
