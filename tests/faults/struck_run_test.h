// StruckRunTest: tests of `zero train` in which one process is killed or paused at a random moment.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/faults/train_fault_test.h"

namespace zero {

inline constexpr int kLauncher = -1;  // as a victim: the command itself, which starts the ranks

// Strike: sends a signal to a rank or to the launcher at `moment`. It does not hit if the run has ended. After SIGSTOP
// the process continues (SIGCONT) after `pause`.
class Strike {
 public:
  Strike(WatchedCommand& command, int victim, int signal, Clock::time_point moment,
         std::chrono::milliseconds pause = {}) {
    watch_until(command, moment);
    at_ = Clock::now();
    if (victim == kLauncher && signal == SIGKILL) {
      command.send(SIGKILL);
      hit_ = command.finish() == 128 + SIGKILL;
      return;
    }
    const pid_t pid = victim == kLauncher ? command.pid() : command.wait_for_rank(victim);
    at_ = Clock::now();
    hit_ = pid > 0 && ::kill(pid, signal) == 0;
    if (!hit_ || signal != SIGSTOP) return;
    watch_until(command, at_ + pause);
    ::kill(pid, SIGCONT);
  }
  bool hit() const { return hit_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - at_).count(); }

 private:
  static void watch_until(WatchedCommand& command, Clock::time_point moment) {
    constexpr std::chrono::milliseconds kLook{300};
    for (auto now = Clock::now(); now < moment; now = Clock::now()) {
      command.look_for_sockets();
      command.read_until(std::min(moment, now + kLook));
    }
  }

  bool hit_ = false;
  Clock::time_point at_;
};

class StruckRunTest : public TrainFaultTest {
 protected:
  struct Undisturbed {
    std::chrono::milliseconds span{};
    std::string weights;
  };
  Undisturbed leave_alone(const std::vector<std::string>& words, const std::string& run) const {
    const auto begin = Clock::now();
    WatchedCommand command(words);
    EXPECT_EQ(command.finish(), 0) << command.text();
    return {std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin), weights_of(run)};
  }

  std::string weights_of(const std::string& run) const { return report_of(run).value("parameters_sha256", "none"); }

  void expect_no_half_file(const std::string& run) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / run))
      EXPECT_FALSE(entry.path().filename().string().ends_with(".tmp")) << entry.path();
  }

  // Expects that no process and no socket of the command is left.
  static void expect_nothing_left(WatchedCommand& command) {
    EXPECT_TRUE(command.gone_before(Clock::now() + kAllGone)) << "orphans: " << command.text();
    // While a process ends, /proc loses its name before its descriptors are closed.
    command.sockets_gone_before(Clock::now() + kAllGone);
    EXPECT_EQ(command.sockets_left(), OpenSockets{});
  }
};

}  // namespace zero
