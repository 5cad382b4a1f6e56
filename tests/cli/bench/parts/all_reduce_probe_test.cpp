#include "app/cli/bench/parts/all_reduce_probe.h"

#include <gtest/gtest.h>

namespace zero::cli {
namespace {

// In an all_reduce a rank adds a block of each rank, and takes the sums of the others.
TEST(AllReduceProbe, AddsABlockOfEachRank) {
  for (const int world : {2, 3, 5}) {
    AllReduceProbe probe(world * 1024, world);
    probe.run();
    const std::span<const float> result = probe.result();
    ASSERT_EQ(result.size(), static_cast<std::size_t>(world) * 256) << world;
    EXPECT_EQ(result.front(), static_cast<float>(world));
    EXPECT_EQ(result[255], static_cast<float>(world));
    EXPECT_EQ(result.back(), 1) << "copied";
  }
}

}  // namespace
}  // namespace zero::cli
