#include "zero/engine/wire/step_sync.h"

#include <vector>

#include <gtest/gtest.h>

#include "zero/engine/options/step_report.h"

#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

RankStep rank_step(std::size_t num_params) {
  RankStep result;
  result.present.assign(num_params, false);
  return result;
}

TEST(StepSync, RanksReachTheSameVerdict) {
  std::vector<StepSync> verdicts(4);
  on_ranks(4, [&](Communicator& comm) {
    const int rank = comm.rank();
    RankStep mine = rank_step(11);
    mine.sum_squares.add(101.0 * rank + 0.5);
    mine.num_non_finite = rank == 2 ? 7 : 0;
    mine.first_bad_param = rank == 2 ? 5 : -1;
    mine.present[static_cast<std::size_t>(rank)] = true;
    mine.present[10] = rank == 3;
    verdicts[static_cast<std::size_t>(rank)] = exchange(comm, mine);
  });
  for (const StepSync& verdict : verdicts) {
    EXPECT_EQ(verdict.sum_squares, std::vector{0.5 + 101.5 + 202.5 + 303.5});
    EXPECT_EQ(verdict.num_non_finite, 7);
    EXPECT_EQ(verdict.first_bad_param, 5);
    EXPECT_EQ(verdict.mismatched_rank, -1);
    for (std::size_t param = 0; param < 11; ++param)
      EXPECT_EQ(verdict.present[param], param < 4 || param == 10) << param;
  }
}

// The error names the rank whose rate differs from rank 0's.
TEST(StepSync, NamesADifferentLearningRate) {
  on_ranks(3, [&](Communicator& comm) {
    RankStep mine = rank_step(1);
    mine.lr = comm.rank() == 2 ? 0.25 : 0.5;
    const StepSync verdict = exchange(comm, mine);
    ASSERT_TRUE(verdict.other_rate);
    EXPECT_EQ(verdict.other_rate->rank, 2);
    EXPECT_EQ(verdict.other_rate->lr, 0.25);
    EXPECT_EQ(verdict.other_rate->first, 0.5);
  });
}

TEST(StepSync, RankWithOtherRatesIsFound) {
  on_ranks(3, [&](Communicator& comm) {
    RankStep mine = rank_step(1);
    EXPECT_EQ(exchange(comm, mine).other_rates_rank, -1);
    mine.rates_hash = hash_of(StepRates{.lr = 1, .by_group = {comm.rank() == 2 ? 0.25 : 0.5}});
    EXPECT_EQ(exchange(comm, mine).other_rates_rank, 2);
  });
}

TEST(StepRates, HashKnowsTheList) {
  EXPECT_NE(hash_of({.lr = 1, .by_group = {0.5}}), hash_of({.lr = 1, .decay_by_group = {0.5}}));
  EXPECT_EQ(hash_of({.lr = 1, .by_group = {0.5}}), hash_of({.lr = 1, .by_group = {0.5}}));
}

TEST(StepSync, OtherNumberOfPassesIsNamed) {
  on_ranks(3, [&](Communicator& comm) {
    RankStep mine = rank_step(1);
    mine.passes = comm.rank() == 1 ? 1 : 2;
    const StepSync verdict = exchange(comm, mine);
    ASSERT_TRUE(verdict.other_passes);
    EXPECT_EQ(verdict.other_passes->rank, 1);
    EXPECT_EQ(verdict.other_passes->passes, 1);
    EXPECT_EQ(verdict.other_passes->first, 2);
  });
}

// In double, each 1 would be lost beside 2^60, and the lost terms would depend on the order. An exact sum does not
// depend on which rank has which terms.
TEST(StepSync, SumsAreExactBeforeRounding) {
  const std::vector<double> terms{0x1p60, 1, 1, 1, 0x1p60, 0x1p8, 0x1p-1, 0x1p60};
  for (const int world : {1, 2, 4}) {
    for (const int shard : {0, 1}) {
      on_ranks(world, [&](Communicator& comm) {
        RankStep mine = rank_step(0);
        for (std::size_t i = 0; i < terms.size(); ++i) {
          const bool own = shard == 1 || i % static_cast<std::size_t>(world) == static_cast<std::size_t>(comm.rank());
          if (own) mine.sum_squares.add(terms[i]);
        }
        const StepSync verdict = exchange(comm, mine, shard);
        ASSERT_EQ(verdict.sum_squares.size(), shard == 1 ? static_cast<std::size_t>(world) : 1U);
        for (const double sum : verdict.sum_squares) EXPECT_EQ(sum, 3 * 0x1p60 + 512) << world << " ranks";
      });
    }
  }
}

TEST(StepSync, TheLowestBadParameterIsNamed) {
  on_ranks(3, [](Communicator& comm) {
    RankStep mine = rank_step(9);
    mine.first_bad_param = std::vector<int>{-1, 8, 3}[static_cast<std::size_t>(comm.rank())];
    mine.num_non_finite = comm.rank();
    const StepSync verdict = exchange(comm, mine);
    EXPECT_EQ(verdict.first_bad_param, 3);
    EXPECT_EQ(verdict.num_non_finite, 3);
  });
}

TEST(StepSync, NamesTheFirstDifferingRank) {
  on_ranks(4, [](Communicator& comm) {
    RankStep mine = rank_step(0);
    mine.trace_hash = comm.rank() >= 2 ? 42 : 41;
    EXPECT_EQ(exchange(comm, mine).mismatched_rank, 2);
  });
}

// There are so many values that peers read them in place. They must live until every rank has read them.
TEST(StepSync, ManyValuesOutliveTheirReaders) {
  on_ranks(4, [](Communicator& comm) {
    for (int round = 0; round < 20; ++round) {
      RankStep mine = rank_step(200'000);
      mine.sum_squares.add(comm.rank() + round);
      mine.present[static_cast<std::size_t>(199'990 + comm.rank())] = true;
      const StepSync verdict = exchange(comm, mine);
      ASSERT_EQ(verdict.sum_squares, std::vector<double>{6.0 + 4 * round});
      for (std::size_t param = 199'980; param < 200'000; ++param)
        ASSERT_EQ(verdict.present[param], param >= 199'990 && param < 199'994);
    }
  });
}

// Rounded sums would lose the small terms of the second part.
TEST(StepSync, PartsAddExactly) {
  on_ranks(2, [](Communicator& comm) {
    RankStep large = rank_step(1), small = rank_step(3);
    large.sum_squares.add(0x1p60);
    small.sum_squares.add(128);
    small.num_non_finite = comm.rank();
    StepSync whole = exchange(comm, large);
    const StepSync part = exchange(comm, small);
    add_part(whole, part);
    add_part(whole, part);
    EXPECT_EQ(whole.sum_squares, std::vector<double>{0x1p61 + 512});
    EXPECT_EQ(whole.num_non_finite, 2);
    EXPECT_EQ(whole.present.size(), 1U);
  });
}

TEST(StepSync, IsBookkeepingNotTraffic) {
  on_ranks(2, [](Communicator& comm) {
    exchange(comm, rank_step(5));
    EXPECT_EQ(comm.traffic().sent_bytes, 0);
    EXPECT_GT(comm.traffic().control_sent_bytes, 0);
  });
}

}  // namespace
}  // namespace zero
