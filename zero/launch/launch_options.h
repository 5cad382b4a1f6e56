// LaunchOptions: the launcher's options as plain values. Parsing and checks are the command's (zero/cli).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace zero {

class MemoryFiles;
struct RankEnd;

// More ranks on one machine are taken for a slip.
inline constexpr int kMostLocalRanks = 1024;

// What is run in a smaller world.
struct WorldProgram {
  std::vector<std::string> words;
  std::string change;  // from the first world's, for the line that says so; may be empty
};

struct LaunchOptions {
  std::vector<std::string> program;  // with its arguments; looked up in PATH
  int ranks = 1;                     // on this machine
  int asked_ranks = 0;               // where a rank was left out: with how many the same program began
  int nodes = 1;                     // machines with as many ranks each
  int node_rank = 0;                 // this machine among them
  std::string master_address = "127.0.0.1";
  int master_port = 0;   // 0: one that is free now
  std::string run_name;  // TORCHELASTIC_RUN_ID; empty: random, and on several machines the master's address and port
  std::string role = "default";
  int max_restarts = 0;  // most restarts after a failure: of all ranks, and of spared ones alone
  int min_ranks = 0;  // with fewer ranks, but not fewer than these, when one keeps failing; 0: never; one machine only
  // The program for fewer ranks. ConfigError if that number cannot hold the run: then fewer are tried. Empty: the same.
  std::function<WorldProgram(int world)> program_for{};
  // How far the program has come, by what it left behind, in the launcher's memory too: three failures in a row at the
  // same point end it (see restart_policy.h). Empty: by the steps that its ranks noted (furthest_step()).
  std::function<std::int64_t(const MemoryFiles& kept)> progress{};
  // Called when not every rank of an attempt ended well, before the ranks are started again: what they had the launcher
  // keep (zero/launcher_memory/launcher_memory.h) is all there. `ends` in the order in which they ended. Returns what
  // is to be said of it, in whole lines; an Error it throws is said, too.
  std::function<std::string(const MemoryFiles& kept, std::span<const RankEnd> ends, int generation)> after_failure{};
  // Ranks from this one on may fail (in any way but a refusal) while the others go on; -1: none may. While restarts are
  // left, such a rank is started again alone.
  int spared_from = -1;
  // Whether a rank of that machine may not fail.
  bool is_needed(int machine) const { return spared_from < 0 || machine * ranks < spared_from; }
  bool bind_cores = true;        // an equal, contiguous share of the cores each, when there are enough
  std::vector<int> shown_ranks;  // local ranks whose output is shown; empty: all
  std::vector<std::pair<std::string, std::string>> variables;  // more environment for every rank

  // From the first failure: how long the other ranks may still say in their own words what they saw, and how long they
  // may then take to end before they are killed. Together they stay under the second within which all must be gone.
  std::chrono::milliseconds witness{100};
  std::chrono::milliseconds grace{400};
  // A rank that its peers saw leave is still printing its reason: the others are told to end only after this time, or
  // when it has ended.
  std::chrono::milliseconds farewell{5000};
  // Where ranks of several machines may fail (spared_from): how long to look for the launcher of machine 0, and how long
  // it may take to answer, for half of which it may wait for others (machine_messages.h).
  std::chrono::milliseconds patience{60'000};
  std::chrono::milliseconds answer{30'000};
};

}  // namespace zero
