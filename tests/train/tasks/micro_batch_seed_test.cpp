#include "app/train/tasks/micro_batch_seed.h"

#include <set>

#include <gtest/gtest.h>

namespace zero {
namespace {

TEST(MicroBatchSeed, EveryPlaceHasItsOwn) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    for (int step = 0; step < 20; ++step) {
      for (int micro = 0; micro < 4; ++micro) {
        for (int rank = 0; rank < 4; ++rank) seeds.insert(micro_batch_seed(seed, step, micro, rank));
      }
    }
  }
  EXPECT_EQ(seeds.size(), 3U * 20 * 4 * 4);
}

TEST(MicroBatchSeed, StepAndMicroBatchAreDistinct) {
  EXPECT_NE(micro_batch_seed(1, 2, 3, 0), micro_batch_seed(1, 3, 2, 0));
  EXPECT_NE(micro_batch_seed(1, 0, 2, 3), micro_batch_seed(1, 0, 3, 2));
}

TEST(MicroBatchSeed, NeverChanges) {
  // Another formula would change every run with dropout.
  static_assert(micro_batch_seed(0, 0, 0, 0) == micro_batch_seed(0, 0, 0, 0));
  std::uint64_t expected = 0;
  for (const std::uint64_t number : {1337U, 5U, 1U, 2U}) {
    expected += number + 0x9e3779b97f4a7c15u;
    expected = (expected ^ (expected >> 30)) * 0xbf58476d1ce4e5b9u;
    expected = (expected ^ (expected >> 27)) * 0x94d049bb133111ebu;
    expected ^= expected >> 31;
  }
  EXPECT_EQ(micro_batch_seed(1337, 5, 1, 2), expected);
}

}  // namespace
}  // namespace zero
