// WorldTest: the grid that every transport passes: transport x world x size.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "zero/comm/transport/open_transport.h"

#include "tests/support/tier.h"
#include "tests/world/world_runner.h"

namespace zero {

// Transports whose ranks read each other's memory.
inline std::vector<std::string> board_transports() {
  return {"in_process", "shared_memory"};
}

// Every transport for which the tests can start ranks, or the one that a launcher has started.
inline std::vector<std::string> transports() {
  if (const std::string launched = launched_transport(); !launched.empty()) return {launched};
  std::vector<std::string> names = board_transports();
  names.emplace_back("recorded");
  for (const TransportStatus& status : transport_statuses()) {
    if (status.name == "gloo" && status.available) names.push_back(status.name);
  }
  return names;
}

inline std::vector<int> worlds() {
  if (!launched_transport().empty()) return {launched_world()};
  return in_full_tier() ? std::vector{1, 2, 3, 4, 7} : std::vector{1, 3, 4};
}

// Bytes of a block: 0, 1, an odd size, the largest inline size and one more, and sizes with several blocks of
// statistics.
constexpr std::size_t kSizes[] = {0, 1, 1003, 4096, 4097, 70001, 300001};

class WorldTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  World world() const { return {.transport = std::get<0>(GetParam()), .size = std::get<1>(GetParam())}; }
};

// GivenUp: counts the ranks that have stopped waiting, over threads and forked processes. A late rank stays away until
// then. Peers that never stop waiting end at the test's own limit.
class GivenUp {
 public:
  GivenUp()
      : count_(new (mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   std::atomic<int>(0)) {}
  GivenUp(const GivenUp&) = delete;
  GivenUp& operator=(const GivenUp&) = delete;
  ~GivenUp() { munmap(count_, sizeof *count_); }

  // Called by a waiting rank. `wait` throws.
  void note(const std::function<void()>& wait) const {
    try {
      wait();
    } catch (...) {
      ++*count_;
      throw;
    }
  }
  // Called by the late rank.
  void stay_away_until(int ranks) const {
    while (*count_ < ranks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::atomic<int>* count_;
};

// The timeout for tests of late ranks. On a busy machine it is long enough for all ranks to meet first.
constexpr std::chrono::milliseconds kSoon{1000};
// The timeout for failures that must be found at once: far beyond a test's own limit, so no test passes because of it.
constexpr std::chrono::hours kNever{1};

inline std::string name_of_world(const ::testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
}

}  // namespace zero

#define ZERO_INSTANTIATE_WORLDS(suite)                                                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                                                            \
      Worlds, suite, ::testing::Combine(::testing::ValuesIn(zero::transports()), ::testing::ValuesIn(zero::worlds())), \
      zero::name_of_world)
