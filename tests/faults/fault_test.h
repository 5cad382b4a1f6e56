// FaultTest: the start and end of every fault test. The random seed is always the same for a test, and other for each
// value of its parameter. A test leaves no file in /dev/shm and no socket at which ranks meet.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>

#include "tests/faults/watched_command.h"

#define EXPECT_SAYS(command, part) EXPECT_NE((command).text().find(part), std::string::npos) << (command).text()

namespace zero {

// The limit from a fault to the end of every rank. The measured maximum is 0.6 s (docs/reliability.md). A busy machine
// gets more, but far less than the minute after which a rank gives up by itself.
constexpr std::chrono::seconds kAllGone{20};

class FaultTest : public testing::Test {
 protected:
  // Names that are new since the test began must disappear: sockets at which processes meet, and files that are mapped
  // into memory. Names of other programs are ignored, such as those of another test's mpirun.
  void TearDown() override {
    std::set<std::string> left = new_names(before_);
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (!left.empty() && Clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const std::set<std::string> now = new_names(before_);
      std::erase_if(left, [&now](const std::string& name) { return !now.contains(name); });
    }
    std::erase_if(left, [](const std::string& name) { return is_in_memory_of_others(name); });
    EXPECT_EQ(left, std::set<std::string>{});
  }

  static std::set<std::string> new_names(const std::set<std::string>& before) {
    std::set<std::string> names = shared_names();
    std::erase_if(names, [&before](const std::string& name) { return before.contains(name); });
    return names;
  }

  int any_rank(int world) { return static_cast<int>(random_() % static_cast<unsigned>(world)); }

  std::chrono::milliseconds any_moment(std::chrono::milliseconds span) {
    return std::chrono::milliseconds(random_() % static_cast<unsigned>(span.count() + 1));
  }

  // Kills the rank at a random moment in the first `span` of its life, including its start. Returns the time of the
  // kill.
  Clock::time_point kill_early(WatchedCommand& command, int rank, std::chrono::milliseconds span) {
    const auto moment = any_moment(span);
    const pid_t pid = command.wait_for_rank(rank);
    std::this_thread::sleep_for(moment);
    return strike(pid, SIGKILL);
  }

  // Kills a rank once `line` is printed, and waits for `notice`. Returns false if the run ended before. On a busy
  // machine, the line may be read long after it was written.
  static bool kill_at(WatchedCommand& command, const std::string& line, int rank, const std::string& notice) {
    if (!command.wait_for(line)) return false;
    const std::size_t from = command.text().size();
    const pid_t pid = command.wait_for_rank(rank);
    return pid > 0 && kill(pid, SIGKILL) == 0 && command.wait_for(notice, from);
  }

  static void signal_ranks(const WatchedCommand& command, int signal) {
    for (const WatchedProcess& process : command.living())
      if (process.rank >= 0) kill(process.pid, signal);
  }

  // Returns the time of the signal. Fails the test if there is no such rank.
  static Clock::time_point strike(pid_t pid, int signal) {
    const auto now = Clock::now();
    EXPECT_TRUE(pid > 0 && kill(pid, signal) == 0) << "there is no such rank";
    return now;
  }

 private:
  static std::mt19937 seeded_by_name() {
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::seed_seq seeds(name.begin(), name.end());
    return std::mt19937(seeds);
  }

  static std::set<std::string> shared_names() {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      // Ignores the scratch folder of crash_points.py, a test that may run at the same time for minutes.
      if (!entry.path().filename().string().starts_with("crash-points-")) names.insert(entry.path());
    }
    const OpenSockets open = open_sockets();
    for (const pid_t pid : living_of_all_commands()) {
      for (const std::uint64_t inode : sockets_of(pid)) {
        const auto found = open.find(inode);
        if (found != open.end() && is_rendezvous(found->second)) names.insert(found->second);
      }
    }
    return names;
  }

  static bool is_in_memory_of_others(const std::string& file) {
    const std::vector<pid_t> ours = living_of_all_commands();
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      if (std::ranges::find(ours, static_cast<pid_t>(std::stol(name))) != ours.end()) continue;
      std::ifstream maps(entry.path() / "maps");
      for (std::string line; std::getline(maps, line);)
        if (line.ends_with(" " + file)) return true;
    }
    return false;
  }

  std::set<std::string> before_ = shared_names();
  std::mt19937 random_ = seeded_by_name();
};

}  // namespace zero
