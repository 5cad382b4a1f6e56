// What the two files of `zero bench comm` share: its options, sizes, how a collective is timed, and what a rank measures on a
// device.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "zero/bench/measurement.h"
#include "zero/comm/collectives.h"
#include "zero/rendezvous/detect_ranks.h"

namespace zero::cli {

struct CommBenchOptions {
  int ranks = 2;
  int rounds = 5;
  std::int64_t mib = 256;
  bool json = false;
  std::string device;  // empty: main memory, and all_reduce
  std::vector<std::string> transports;
};

inline constexpr std::array<std::int64_t, 4> kCommBenchSizes{64 << 10, 1 << 20, 32 << 20, 256 << 20};

// How often one measurement repeats a collective of `bytes`: a small one alone is too short for the clock.
inline int repeats_of(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((64 << 20) / bytes, 1, 200));
}

// Seconds that the slowest rank takes for work that all ranks do at the same time.
struct TimedByAll {
  Measurement seconds;

  // Collective. `work` is done `count` times.
  template <typename Work>
  void time(Communicator& comm, int count, const Work& work) {
    comm.barrier({.control = true}).wait();
    Measurement local;
    const double mine = local.time([&] {
      for (int i = 0; i < count; ++i) work();
    });
    const auto slowest = all_reduce_max(comm, static_cast<std::int64_t>(mine * 1e9));
    seconds.add(static_cast<double>(slowest) / 1e9 / count);
  }
};

// Collective. Rank 0 prints. Returns the exit status. Throws ConfigError under "run.device" where this rank's device cannot be
// used, and under "comm.transport" where devices cannot be linked.
int bench_comm_rank_on_device(CommBenchOptions options, const RankEnvironment& environment);

}  // namespace zero::cli
