// CommBenchOptions, TimedByAll: options, sizes and timing that both files of `zero bench comm` share.
//
//   TimedByAll timed;
//   timed.time(comm, repeats_of(bytes), [&] { all_reduce(comm, data, {}); });
//   timed.seconds.median();
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "zero/comm/collectives.h"
#include "zero/comm/rendezvous/detect_ranks.h"

#include "app/cli/bench/measurement.h"

namespace zero::cli {

struct CommBenchOptions {
  int ranks = 2;
  int rounds = 5;
  std::int64_t mib = 256;
  bool json = false;
  std::string device;  // empty: all_reduce in main memory
  std::vector<std::string> transports;
};

inline constexpr std::array<std::int64_t, 4> kCommBenchSizes{64 << 10, 1 << 20, 32 << 20, 256 << 20};

// Returns how often one measurement repeats a collective of `bytes`: one small collective is too short for the clock.
inline int repeats_of(std::int64_t bytes) {
  return static_cast<int>(std::clamp<std::int64_t>((64 << 20) / bytes, 1, 200));
}

// The seconds that the slowest rank takes for work that all ranks do at the same time.
struct TimedByAll {
  Measurement seconds;

  // Adds the seconds of one `work()`, from `count` calls of it. Collective.
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

// Measures the gather and the sum of a unit on a device (bench_comm_device.cpp). Rank 0 prints. Returns the exit
// status. Collective.
// Throws ConfigError with key "run.device" if this rank's device cannot be used, and with key "comm.transport" if
// devices cannot be linked.
int bench_comm_rank_on_device(CommBenchOptions options, const RankEnvironment& environment);

}  // namespace zero::cli
