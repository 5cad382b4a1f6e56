#include "app/data/sample/sample_order.h"

#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace zero {
namespace {

std::vector<std::int64_t> epoch_of(std::uint64_t seed, std::int64_t epoch, std::int64_t count) {
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; i < count; ++i) rows.push_back(shuffled_row(seed, epoch * count + i, count));
  return rows;
}

TEST(GlobalSampleIndex, CountsRowsRanksThenMicroBatches) {
  const BatchGrid grid = even_grid(4, 3, 2);
  EXPECT_EQ(global_sample_index({}, 0, 0), 0);
  EXPECT_EQ(global_sample_index(grid, 0, 1), 2 * 4 + 1);
  // step 5 of two micro-batches each, its second micro-batch: ((5*2 + 1)*3 + 2)*4 + 3
  EXPECT_EQ(global_sample_index(grid, 5 * 2 + 1, 3), ((5 * 2 + 1) * 3 + 2) * 4 + 3);
}

TEST(GlobalSampleIndex, RowsOfAStepDiffer) {
  std::set<std::int64_t> seen;
  for (int rank = 0; rank < 3; ++rank)
    for (std::int64_t micro_batch = 0; micro_batch < 4; ++micro_batch)
      for (std::int64_t row = 0; row < 5; ++row)
        seen.insert(global_sample_index(even_grid(5, 3, rank), micro_batch, row));
  EXPECT_EQ(seen.size(), 60u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 59);
}

// This is part of the contract: a published run must draw the same samples in the future.
TEST(ShuffledOffset, GivesTheSameNumbersForEver) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t g = 0; g < 6; ++g) offsets.push_back(shuffled_offset(1337, g, 1'003'790));
  EXPECT_EQ(offsets, (std::vector<std::int64_t>{194049, 360250, 721948, 396675, 783171, 938563}));
}

TEST(ShuffledRow, GivesTheSameNumbersForEver) {
  EXPECT_EQ(epoch_of(1337, 0, 10), (std::vector<std::int64_t>{8, 1, 6, 3, 2, 7, 4, 5, 0, 9}));
  EXPECT_EQ(epoch_of(1337, 1, 10), (std::vector<std::int64_t>{7, 8, 6, 9, 4, 2, 0, 3, 5, 1}));
}

RC_GTEST_PROP(ShuffledOffset, StaysInRange, (std::uint64_t seed)) {
  const auto g = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 62);
  const auto count = *rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 62);
  const auto offset = shuffled_offset(seed, g, count);
  RC_ASSERT(offset >= 0);
  RC_ASSERT(offset < count);
}

// Chi-square over 64 cells with 1,000 draws each has 63 degrees of freedom. If the draws are uniform, a value of 120
// has a probability of 2e-5. The draws are fixed, so the result never varies.
TEST(ShuffledOffset, IsUniform) {
  constexpr int kCells = 64, kDraws = 64'000;
  for (const std::uint64_t seed : {0ull, 1ull, 1337ull, ~0ull}) {
    std::vector<int> cells(kCells);
    for (std::int64_t g = 0; g < kDraws; ++g) ++cells[static_cast<std::size_t>(shuffled_offset(seed, g, kCells))];
    double chi_square = 0;
    for (const int count : cells) chi_square += std::pow(count - kDraws / kCells, 2) / (kDraws / kCells);
    EXPECT_LT(chi_square, 120) << "seed " << seed;
    EXPECT_GT(chi_square, 25) << "seed " << seed << ": more even than chance allows";
  }
}

TEST(ShuffledOffset, NeighbouringSeedsAndIndicesAreUnrelated) {
  constexpr std::int64_t kCount = 1 << 20;
  int equal = 0, same_shifted = 0;
  for (std::int64_t g = 0; g < 1000; ++g) {
    equal += shuffled_offset(1, g, kCount) == shuffled_offset(2, g, kCount);
    same_shifted += shuffled_offset(1, g + 1, kCount) == shuffled_offset(2, g, kCount);
  }
  EXPECT_LE(equal, 2);
  EXPECT_LE(same_shifted, 2);
}

RC_GTEST_PROP(ShuffledRow, AnEpochIsAPermutation, (std::uint64_t seed)) {
  const auto count = *rc::gen::inRange<std::int64_t>(1, 300);
  const auto epoch = *rc::gen::inRange<std::int64_t>(0, 1000);
  const auto rows = epoch_of(seed, epoch, count);
  const std::set<std::int64_t> distinct(rows.begin(), rows.end());
  RC_ASSERT(distinct.size() == rows.size());
  RC_ASSERT(*distinct.begin() == 0);
  RC_ASSERT(*distinct.rbegin() == count - 1);
}

TEST(ShuffledRow, EpochsAndSeedsDiffer) {
  EXPECT_NE(epoch_of(1, 0, 100), epoch_of(1, 1, 100));
  EXPECT_NE(epoch_of(1, 0, 100), epoch_of(2, 0, 100));
}

// Over many epochs the position of row 0 must be uniform. A weak network would prefer some positions.
TEST(ShuffledRow, EveryRowVisitsEveryPlace) {
  constexpr std::int64_t kCount = 10, kEpochs = 10'000;
  std::vector<int> places(kCount * kCount);
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch)
    for (std::int64_t place = 0; place < kCount; ++place)
      ++places[static_cast<std::size_t>(shuffled_row(7, epoch * kCount + place, kCount) * kCount + place)];
  double chi_square = 0;
  for (const int count : places) chi_square += std::pow(count - kEpochs / kCount, 2) / (kEpochs / kCount);
  EXPECT_LT(chi_square, 150);  // 81 degrees of freedom: probability 5e-6
}

TEST(ShuffledRow, AnEpochIsNotInOrder) {
  const auto rows = epoch_of(3, 0, 1000);
  int rises = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) rises += rows[i] > rows[i - 1];
  EXPECT_NEAR(rises, 500, 60);
}

}  // namespace
}  // namespace zero
