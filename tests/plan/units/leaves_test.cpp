#include "zero/plan/units/leaves.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

// The tree of the contract, as text: a node of n leaves adds its first 2^j < n leaves to the rest.
std::string tree_text(int first, int count) {
  if (count == 1) return fmt::format("{}", first);
  int half = 1;
  while (2 * half < count) half *= 2;
  return fmt::format("({}+{})", tree_text(first, half), tree_text(first + half, count - half));
}

// Carries out a program of merges.
std::string merged(const std::vector<std::string>& parts, const SumMerges& merges) {
  std::vector<std::string> stack;
  for (std::size_t part = 0; part < parts.size(); ++part) {
    std::string sum = parts[part];
    for (int n = merges[part]; n > 0; --n) {
      sum = fmt::format("({}+{})", stack.back(), sum);
      stack.pop_back();
    }
    stack.push_back(sum);
  }
  EXPECT_EQ(stack.size(), 1U);
  return stack.front();
}

// Carries out a binary counter.
std::string counted(const std::vector<std::string>& sums) {
  const int count = static_cast<int>(sums.size());
  std::vector<std::string> places(static_cast<std::size_t>(counter_depth(count)));
  for (int round = 0; round < count; ++round) {
    const CounterStep step = counter_step(round, count);
    std::string& to = places[static_cast<std::size_t>(step.position)];
    const std::string& sum = sums[static_cast<std::size_t>(round)];
    to = step.adds ? fmt::format("({}+{})", to, sum) : sum;
    for (int top = step.position; top > step.position - step.merges; --top)
      places[static_cast<std::size_t>(top) - 1] =
          fmt::format("({}+{})", places[static_cast<std::size_t>(top) - 1], places[static_cast<std::size_t>(top)]);
  }
  return places.front();
}

// The sum that ranks and micro-batches make of the leaves.
std::string sum_of(const Leaves& leaves) {
  std::vector<std::string> rounds;
  if (leaves.reduce() == Reduce::kEach) {
    for (int micro = 0; micro < leaves.passes(); ++micro) {
      std::vector<std::string> ranks;
      for (int rank = 0; rank < leaves.ranks(); ++rank) ranks.push_back(fmt::format("{}", leaves.leaf(rank, micro)));
      rounds.push_back(merged(ranks, leaves.merges()));
    }
    return counted(rounds);
  }
  for (int rank = 0; rank < leaves.ranks(); ++rank) {
    std::vector<std::string> own;
    for (int micro = 0; micro < leaves.computed(rank); ++micro)
      own.push_back(fmt::format("{}", leaves.leaf(rank, micro)));
    rounds.push_back(counted(own));
  }
  return merged(rounds, leaves.merges());
}

TEST(Leaves, EveryWorldMakesOneTree) {
  for (int count = 1; count <= 24; ++count) {
    for (int ranks = 1; ranks <= count; ++ranks) {
      for (const Reduce reduce : {Reduce::kAuto, Reduce::kLast})
        EXPECT_EQ(sum_of(Leaves(count, ranks, reduce)), tree_text(0, count)) << count << " over " << ranks;
    }
  }
}

TEST(Leaves, CounterMakesTheTree) {
  for (int count = 1; count <= 70; ++count) {
    std::vector<std::string> sums;
    for (int sum = 0; sum < count; ++sum) sums.push_back(fmt::format("{}", sum));
    EXPECT_EQ(counted(sums), tree_text(0, count));
    EXPECT_EQ(merged(sums, balanced_merges(count)), tree_text(0, count));
  }
  EXPECT_EQ(counter_depth(1), 1);
  EXPECT_EQ(counter_depth(2), 1);
  EXPECT_EQ(counter_depth(8), 3);
  EXPECT_EQ(counter_depth(16), 4);
}

TEST(Leaves, LossesAreAddedInTheTree) {
  const std::vector<double> values{1e16, 1, -1e16, 1, 1};
  EXPECT_EQ(tree_sum(values), ((1e16 + 1) + (-1e16 + 1)) + 1);
  EXPECT_EQ(tree_sum({}), 0);
}

TEST(Leaves, EachTakesSamplesInTurn) {
  const Leaves leaves(8, 2, Reduce::kAuto);
  EXPECT_EQ(leaves.reduce(), Reduce::kEach);
  EXPECT_EQ(leaves.passes(), 4);
  EXPECT_EQ(leaves.leaf(1, 3), 7);
  EXPECT_EQ(leaves.leaf(1, 0), 1);
}

TEST(Leaves, ThreeRanksTakeUnequalSubtrees) {
  const Leaves leaves(8, 3, Reduce::kAuto);
  EXPECT_EQ(leaves.reduce(), Reduce::kLast);
  EXPECT_EQ(leaves.passes(), 4);
  EXPECT_EQ(leaves.computed(0), 4);
  EXPECT_EQ(leaves.computed(1), 2);
  EXPECT_EQ(leaves.computed(2), 2);
  EXPECT_EQ(leaves.leaf(0, 3), 3);
  EXPECT_EQ(leaves.leaf(2, 1), 7);
  EXPECT_EQ(leaves.leaf(2, 2), -1);
}

TEST(Leaves, WorldsWithoutTreeAreRefused) {
  const auto refusal = [](int count, int ranks, Reduce reduce) {
    return message_of<ConfigError>([&] { Leaves(count, ranks, reduce); });
  };
  EXPECT_NE(refusal(8, 9, Reduce::kAuto).find("train.leaves = 8: 9 ranks have no leaf each"), std::string::npos);
  EXPECT_NE(refusal(8, 3, Reduce::kEach).find("train.reduce = \"last\""), std::string::npos);
  EXPECT_NE(refusal(6, 4, Reduce::kEach).find("train.reduce = \"last\""), std::string::npos);
}

}  // namespace
}  // namespace zero
