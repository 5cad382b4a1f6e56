// The grid that every transport passes: transport x world x size.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/transport/open_transport.h"

#include "tests/tier.h"
#include "world_runner.h"

namespace zero {

// Transports whose ranks read each other's memory.
inline std::vector<std::string> board_transports() {
  return {"in_process", "shared_memory"};
}

// Every transport that these tests can start ranks for, or the one that a launcher has started.
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

// Bytes of a block: nothing, one, odd, inline and just above, in several stats blocks.
constexpr std::size_t kSizes[] = {0, 1, 1003, 4096, 4097, 70001, 300001};

class WorldTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  World world() const { return {.transport = std::get<0>(GetParam()), .size = std::get<1>(GetParam())}; }
};

// A rank that comes later than its peers wait, or so late that they do wait: the time itself is what is tried.
inline void stay_away(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

inline std::string name_of_world(const ::testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
}

}  // namespace zero

#define ZERO_INSTANTIATE_WORLDS(suite)                                                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                                                            \
      Worlds, suite, ::testing::Combine(::testing::ValuesIn(zero::transports()), ::testing::ValuesIn(zero::worlds())), \
      zero::name_of_world)
