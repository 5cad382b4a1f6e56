// LaunchOptions: the launcher's options as plain values, which app/cli parses and checks.
//
//   const LaunchOptions options{.program = {"./train", "config.toml"}, .ranks = 4, .max_restarts = 3};
//
// Local; values only.
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

// The most ranks on one machine. A larger number is treated as a typing error.
inline constexpr int kMostLocalRanks = 1024;

// The program for a smaller world.
struct WorldProgram {
  std::vector<std::string> words;
  std::string change;  // difference from the first world's program, for the user; may be empty
};

struct LaunchOptions {
  std::vector<std::string> program;  // the program and its arguments; looked up in PATH
  int ranks = 1;                     // ranks on this machine
  int asked_ranks = 0;               // number of ranks at the begin, if a rank was left out since
  int nodes = 1;                     // number of machines, which have equally many ranks
  int node_rank = 0;                 // number of this machine
  std::string master_address = "127.0.0.1";
  int master_port = 0;   // 0: a free port
  std::string run_name;  // TORCHELASTIC_RUN_ID; empty: random, and on several machines the master's address and port
  std::string role = "default";
  int max_restarts = 0;  // most restarts after failures: of all ranks, and of single spared ranks
  int min_ranks = 0;     // fewest ranks to continue with if one keeps failing; 0: always all ranks; one machine only
  // Returns the program for fewer ranks. Throws ConfigError if `world` ranks cannot hold the run; then a smaller world
  // is tried. Empty: the same program.
  std::function<WorldProgram(int world)> program_for{};
  // Returns how far the program has come, from its files and from memory that the launcher holds. Three failures in a
  // row at the same point end the launch (restart_policy.h). Empty: the launcher uses the steps that the ranks noted
  // (furthest_step()).
  std::function<std::int64_t(const MemoryFiles& kept)> progress{};
  // Called after an attempt if not every rank ended well, and before the ranks start again. `kept` has all memory that
  // the ranks gave to the launcher (zero/comm/launcher/launcher_memory.h). `ends`: in the order of the ends. Returns
  // whole lines to print. If it throws an Error, the launcher prints its message.
  std::function<std::string(const MemoryFiles& kept, std::span<const RankEnd> ends, int generation)> after_failure{};
  // The first rank that may fail while the other ranks continue. All ranks from this one on may fail, but may not
  // refuse their configuration; -1: none. While restarts are left, such a rank is started again by itself.
  int spared_from = -1;
  // Returns whether `machine` has a rank that may not fail.
  bool is_needed(int machine) const { return spared_from < 0 || machine * ranks < spared_from; }
  bool bind_cores = true;        // binds each rank to an equal, contiguous share of the cores, if there are enough
  std::vector<int> shown_ranks;  // local ranks whose output is shown; empty: all
  std::vector<std::pair<std::string, std::string>> variables;  // additional environment of every rank

  // Times after the first failure. witness: the other ranks may print their own errors. grace: they may then end before
  // they are killed. The sum is less than one second, the time within which all ranks must be gone.
  std::chrono::milliseconds witness{100};
  std::chrono::milliseconds grace{400};
  // Most time for a rank to print its reason after its peers saw it leave. The other ranks are told to end after this
  // time, or when that rank has ended.
  std::chrono::milliseconds farewell{5000};
  // For several machines whose ranks may fail (spared_from). patience: time to find the launcher of machine 0. answer:
  // time for its answer, half of which it may wait for other launchers (machine_messages.h).
  std::chrono::milliseconds patience{60'000};
  std::chrono::milliseconds answer{30'000};
};

}  // namespace zero
