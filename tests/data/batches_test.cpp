#include "app/data/batches.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "zero/base/error/error.h"

#include "app/data/tables/csv.h"
#include "app/data/tables/table_dataset.h"
#include "app/data/tokens/token_dataset.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

// Rows whose target is their own row number.
TableDataset numbered(std::int64_t rows) {
  CsvTable table{.num_columns = 2};
  for (std::int64_t i = 0; i < rows; ++i) table.values.insert(table.values.end(), {0.0f, static_cast<float>(i)});
  return TableDataset(table, 0, rows, "data.path", "t.csv");
}

std::vector<int> rows_of(const Batch& batch) {
  const auto& values = std::get<std::vector<float>>(batch.target.values);
  return {values.begin(), values.end()};
}

TEST(TrainingBatches, FollowTheGlobalIndex) {
  const auto data = numbered(1000);
  Batch batch;
  for (int rank = 0; rank < 3; ++rank)
    for (std::int64_t micro_batch = 0; micro_batch < 5; ++micro_batch) {
      TrainingBatches(data, Order::kSequential, 1, even_grid(2, 3, rank)).fill(micro_batch, batch);
      const int first = (static_cast<int>(micro_batch) * 3 + rank) * 2;
      EXPECT_EQ(rows_of(batch), (std::vector<int>{first, first + 1}));
    }
}

// All ranks and micro-batches of a step together read the same rows, for any division of the batch.
RC_GTEST_PROP(TrainingBatches, StepIsEqualInAnyWorld, (std::uint64_t seed)) {
  const auto data = numbered(100);
  const auto step_of = [&](std::int64_t batch_size, std::int64_t accumulate, int world, std::int64_t step) {
    std::vector<int> rows;
    for (std::int64_t micro = 0; micro < accumulate; ++micro)
      for (int rank = 0; rank < world; ++rank) {
        Batch batch;
        TrainingBatches(data, Order::kShuffled, seed, even_grid(batch_size, world, rank))
            .fill(step * accumulate + micro, batch);
        const auto part = rows_of(batch);
        rows.insert(rows.end(), part.begin(), part.end());
      }
    return rows;
  };
  const auto step = *rc::gen::inRange<std::int64_t>(0, 1000);
  const auto whole = step_of(12, 1, 1, step);
  RC_ASSERT(step_of(6, 1, 2, step) == whole);
  RC_ASSERT(step_of(1, 3, 4, step) == whole);
  RC_ASSERT(step_of(4, 3, 1, step) == whole);
}

// Leaf l of a step has samples l * batch ..., on whichever rank; idle micro-batches repeat a leaf.
TEST(TrainingBatches, LeavesNameTheirSamples) {
  const auto data = numbered(1000);
  Batch batch;
  const TrainingBatches batches(data, Order::kSequential, 1, even_grid(2, 3, 1), /*first_sample=*/10,
                                {.count = 8, .leaves = {4, 5, 5, 5}});
  const auto first_of = [&](std::int64_t micro_batch) {
    batches.fill(micro_batch, batch);
    return rows_of(batch).front();
  };
  EXPECT_EQ(first_of(0), 10 + 4 * 2);
  EXPECT_EQ(first_of(1), 10 + 5 * 2);
  EXPECT_EQ(first_of(3), 10 + 5 * 2);
  EXPECT_EQ(first_of(4), 10 + 8 * 2 + 4 * 2);
}

// Ranks with unequal shares take unequal parts of the step's rows.
RC_GTEST_PROP(TrainingBatches, StepIsEqualForAnyShares, (std::uint64_t seed)) {
  const auto data = numbered(100);
  const auto shares = *rc::gen::container<std::vector<std::int64_t>>(4, rc::gen::inRange<std::int64_t>(1, 9));
  const std::int64_t together = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  const auto micro_batch = *rc::gen::inRange<std::int64_t>(0, 1000);
  Batch batch;
  TrainingBatches(data, Order::kShuffled, seed, even_grid(together, 1, 0)).fill(micro_batch, batch);
  const std::vector<int> whole = rows_of(batch);
  std::vector<int> rows;
  for (int rank = 0; rank < 4; ++rank) {
    TrainingBatches(data, Order::kShuffled, seed, shared_grid(shares, rank)).fill(micro_batch, batch);
    const auto part = rows_of(batch);
    RC_ASSERT(part.size() == static_cast<std::size_t>(shares[static_cast<std::size_t>(rank)]));
    rows.insert(rows.end(), part.begin(), part.end());
  }
  RC_ASSERT(rows == whole);
}

// Law 2 needs more than equal rows: every call must return the same batch.
TEST(TrainingBatches, DependOnNothingButTheirNumbers) {
  const auto data = numbered(50);
  const TrainingBatches batches(data, Order::kShuffled, 9, even_grid(4, 1, 0));
  Batch first, again;
  batches.fill(3, first);
  batches.fill(7, again);
  batches.fill(3, again);
  EXPECT_EQ(rows_of(first), rows_of(again));
}

// All ranks together read every row once.
RC_GTEST_PROP(EvaluationBatches, CoverEveryRowOnce, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 60);
  const auto batch_size = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto world = *rc::gen::inRange(1, 6);
  const auto data = numbered(rows);
  std::vector<int> seen(static_cast<std::size_t>(rows));
  const std::int64_t num_batches = EvaluationBatches(data, even_grid(batch_size, world, 0)).num_batches();
  for (int rank = 0; rank < world; ++rank) {
    const EvaluationBatches batches(data, even_grid(batch_size, world, rank));
    RC_ASSERT(batches.num_batches() == num_batches);
    for (std::int64_t i = 0; i < num_batches; ++i) {
      Batch batch;
      const std::int64_t counted = batches.fill(i, batch);
      RC_ASSERT(!rows_of(batch).empty());
      RC_ASSERT(counted == 0 || counted == static_cast<std::int64_t>(rows_of(batch).size()));
      if (counted > 0)
        for (const int row : rows_of(batch)) ++seen[static_cast<std::size_t>(row)];
    }
  }
  RC_ASSERT(seen == std::vector<int>(static_cast<std::size_t>(rows), 1));
}

// The counts of all ranks, for text.
TEST(EvaluationBatches, CountsSumToTheTargets) {
  const TemporaryFolder folder;
  const auto path = folder.write("input.txt", std::string(1001, 'a'));
  const TokenDataset data(TokenStream(path, TokenKind::kText), 0, 1001, 64);
  std::int64_t counted = 0;
  for (int rank = 0; rank < 3; ++rank) {
    const EvaluationBatches batches(data, even_grid(2, 3, rank));
    EXPECT_EQ(batches.num_batches(), 3);  // 16 windows, 6 at a time
    Batch batch;
    for (std::int64_t i = 0; i < batches.num_batches(); ++i) counted += batches.fill(i, batch);
  }
  EXPECT_EQ(counted, 1000);
}

TEST(BatchGrid, RejectsRanksOutsideTheWorld) {
  const auto data = numbered(3);
  EXPECT_THROW(even_grid(1, 2, 2), InternalError);
  EXPECT_THROW(shared_grid(std::vector<std::int64_t>{3, 1}, 2), InternalError);
  EXPECT_THROW(EvaluationBatches(data, {.batch = 0}), InternalError);
}

}  // namespace
}  // namespace zero
