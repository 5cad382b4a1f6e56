#include "zero/engine/step_sync.h"

#include <vector>

#include <gtest/gtest.h>

#include "thread_ranks.h"

namespace zero {
namespace {

RankStep rank_step(std::size_t num_units, std::size_t num_params) {
  RankStep result;
  result.sum_squares.assign(num_units, 0.0);
  result.present.assign(num_params, false);
  return result;
}

TEST(StepSync, EveryRankComesToTheSameVerdict) {
  std::vector<StepSync> verdicts(4);
  on_ranks(4, [&](Communicator& comm) {
    const int rank = comm.rank();
    RankStep mine = rank_step(2, 11);
    mine.sum_squares = {rank + 0.5, 100.0 * rank};
    mine.num_non_finite = rank == 2 ? 7 : 0;
    mine.first_bad_param = rank == 2 ? 5 : -1;
    mine.present[static_cast<std::size_t>(rank)] = true;
    mine.present[10] = rank == 3;
    verdicts[static_cast<std::size_t>(rank)] = exchange(comm, mine);
  });
  for (const StepSync& verdict : verdicts) {
    EXPECT_EQ(verdict.sum_squares, std::vector{0.5 + 1.5 + 2.5 + 3.5 + 600});
    EXPECT_EQ(verdict.num_non_finite, 7);
    EXPECT_EQ(verdict.first_bad_param, 5);
    EXPECT_EQ(verdict.mismatched_rank, -1);
    for (std::size_t param = 0; param < 11; ++param)
      EXPECT_EQ(verdict.present[param], param < 4 || param == 10) << param;
  }
}

// The order of a sum of doubles decides its last bits.
TEST(StepSync, SumsUnitsFirstThenRanks) {
  const std::vector<std::vector<double>> sums{{1e16, 1.0}, {1.0, -1e16}, {1.0, 1.0}};
  double wanted = 0;
  for (std::size_t unit = 0; unit < 2; ++unit) {
    for (std::size_t rank = 0; rank < 3; ++rank) wanted += sums[rank][unit];
  }
  on_ranks(3, [&](Communicator& comm) {
    RankStep mine = rank_step(2, 0);
    mine.sum_squares = sums[static_cast<std::size_t>(comm.rank())];
    EXPECT_EQ(exchange(comm, mine).sum_squares, std::vector{wanted});
  });
}

TEST(StepSync, TheLowestBadParameterIsNamed) {
  on_ranks(3, [](Communicator& comm) {
    RankStep mine = rank_step(1, 9);
    mine.first_bad_param = std::vector<int>{-1, 8, 3}[static_cast<std::size_t>(comm.rank())];
    mine.num_non_finite = comm.rank();
    const StepSync verdict = exchange(comm, mine);
    EXPECT_EQ(verdict.first_bad_param, 3);
    EXPECT_EQ(verdict.num_non_finite, 3);
  });
}

TEST(StepSync, TheFirstRankThatDiffersFromRankZeroIsNamed) {
  on_ranks(4, [](Communicator& comm) {
    RankStep mine = rank_step(0, 0);
    mine.trace_hash = comm.rank() >= 2 ? 42 : 41;
    EXPECT_EQ(exchange(comm, mine).mismatched_rank, 2);
  });
}

// Large enough that peers read each other's values in place: they must live until everybody has.
TEST(StepSync, ValuesOfThousandsOfUnitsOutliveTheirReaders) {
  on_ranks(4, [](Communicator& comm) {
    for (int round = 0; round < 20; ++round) {
      RankStep mine = rank_step(3000, 20000);
      for (std::size_t unit = 0; unit < 3000; ++unit) mine.sum_squares[unit] = comm.rank() + round;
      mine.present[static_cast<std::size_t>(19990 + comm.rank())] = true;
      const StepSync verdict = exchange(comm, mine);
      ASSERT_EQ(verdict.sum_squares, std::vector<double>{3000.0 * (6 + 4 * round)});
      for (std::size_t param = 19980; param < 20000; ++param)
        ASSERT_EQ(verdict.present[param], param >= 19990 && param < 19994);
    }
  });
}

TEST(StepSync, IsBookkeepingNotTraffic) {
  on_ranks(2, [](Communicator& comm) {
    exchange(comm, rank_step(5, 5));
    EXPECT_EQ(comm.traffic().sent_bytes, 0);
    EXPECT_GT(comm.traffic().control_sent_bytes, 0);
  });
}

}  // namespace
}  // namespace zero
