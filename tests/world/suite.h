// The grid that every transport passes: transport x world x size.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "world_runner.h"

namespace zero {

inline std::vector<std::string> transports() { return {"in_process", "shared_memory"}; }

// Bytes of a block: nothing, one, odd, inline and just above, in several stats blocks, above what is copied at once.
constexpr std::size_t kSizes[] = {0, 1, 1003, 4096, 4097, 70001, std::size_t{3} << 20};

class WorldTest : public ::testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  World world() const { return {.transport = std::get<0>(GetParam()), .size = std::get<1>(GetParam())}; }
};

inline std::string name_of_world(const ::testing::TestParamInfo<std::tuple<std::string, int>>& info) {
  return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
}

}  // namespace zero

#define ZERO_INSTANTIATE_WORLDS(suite)                                                                          \
  INSTANTIATE_TEST_SUITE_P(Worlds, suite,                                                                       \
                           ::testing::Combine(::testing::ValuesIn(zero::transports()), ::testing::Values(1, 2, 3, 4, 7)), \
                           zero::name_of_world)
