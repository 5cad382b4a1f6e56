// Sums in a tree over ranks, on the paths that have a sum of their own: ranks that share memory, and tiles of messages.
#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "zero/comm/board/in_process.h"
#include "zero/comm/rank_sum.h"
#include "zero/plan/units/leaves.h"

#include "tests/engine/thread_ranks.h"

namespace zero {
namespace {

float input(int rank, std::size_t i) {
  const auto hash = static_cast<std::uint32_t>(rank * 7919) + static_cast<std::uint32_t>(i) * 0x9e3779b1U;
  return static_cast<float>(hash % 65537) * 0.0001F - static_cast<float>(rank);
}

// The contract: a node of n ranks adds its first 2^j < n ranks to the rest.
float tree(int first, int count, const std::function<float(int rank)>& value) {
  if (count == 1) return value(first);
  int half = 1;
  while (2 * half < count) half *= 2;
  return tree(first, half, value) + tree(first + half, count - half, value);
}

TEST(TreeSum, EveryLengthMatchesTheContract) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 8, 13}) {
    for (const std::size_t numel : {0UL, 1UL, 15UL, 16UL, 17UL, 100UL}) {
      std::vector<std::vector<float>> all;
      std::vector<const std::byte*> in;
      for (int rank = 0; rank < ranks; ++rank) {
        std::vector<float>& values = all.emplace_back();
        for (std::size_t i = 0; i < numel; ++i) values.push_back(input(rank, i));
      }
      for (const auto& values : all) in.push_back(reinterpret_cast<const std::byte*>(values.data()));
      std::vector<float> out(numel), before(numel, 0.25F), added = before;
      const SumMerges merges = balanced_merges(ranks);
      const auto count = static_cast<std::int64_t>(numel);
      sum_ranks({.in = in, .out = reinterpret_cast<std::byte*>(out.data()), .numel = count, .merges = merges}, nullptr);
      sum_ranks({.in = in,
                 .out = reinterpret_cast<std::byte*>(added.data()),
                 .numel = count,
                 .accumulate = true,
                 .merges = merges},
                nullptr);
      for (std::size_t i = 0; i < numel; ++i) {
        const float want = tree(0, ranks, [&](int rank) { return input(rank, i); });
        ASSERT_EQ(out[i], want) << ranks << " ranks, element " << i;
        ASSERT_EQ(added[i], before[i] + want);
      }
    }
  }
}

// Of fp32 and bf16 blocks that are larger than a tile.
TEST(TreeSum, BoardAndTilesMatchTheContract) {
  constexpr std::size_t kBlock = 70001;
  for (const int world : {2, 3, 4}) {
    on_ranks(world, [&](Communicator& comm) {
      const auto ranks = static_cast<std::size_t>(world);
      std::vector<float> in(kBlock * ranks);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = input(comm.rank(), i);
      const SumMerges merges = balanced_merges(world);
      for (const bool by_tiles : {false, true}) {
        std::vector<float> out(kBlock);
        const ReduceScatter request{
            .in = std::as_bytes(std::span(in)), .out = std::as_writable_bytes(std::span(out)), .merges = merges};
        by_tiles ? comm.Communicator::reduce_scatter(request, {.unit = 1}).wait()
                 : comm.reduce_scatter(request, {.unit = 1}).wait();
        comm.drain();
        const std::size_t begin = kBlock * static_cast<std::size_t>(comm.rank());
        for (std::size_t i = 0; i < kBlock; ++i) {
          const float want = tree(0, world, [&](int rank) { return input(rank, begin + i); });
          if (out[i] != want) throw Error("another sum");
        }
      }
    });
  }
}

TEST(TreeSum, OtherProgramsAreRefused) {
  const float one = 1;
  const std::byte* const in[] = {reinterpret_cast<const std::byte*>(&one), reinterpret_cast<const std::byte*>(&one)};
  float out = 0;
  for (const SumMerges& merges : {SumMerges{0, 0}, SumMerges{1, 0}, SumMerges{0}, SumMerges{0, 2}}) {
    EXPECT_ANY_THROW(
        sum_ranks({.in = in, .out = reinterpret_cast<std::byte*>(&out), .numel = 1, .merges = merges}, nullptr));
  }
}

}  // namespace
}  // namespace zero
