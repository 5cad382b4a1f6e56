#include "zero/comm/communicator.h"

#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/in_process.h"

namespace zero {
namespace {

TEST(ReduceScatterRequest, FittingSizesPass) {
  std::vector<std::byte> in(48), out(24), narrow(12);
  ReduceScatter{.in = in, .out = std::span(out).first(24)}.check(2);
  ReduceScatter{.in = in, .out = narrow, .out_dtype = DType::kBFloat16}.check(2);
  ReduceScatter{.in = in, .dtype = DType::kBFloat16, .out = std::span(in).first(24), .out_dtype = DType::kBFloat16}
      .check(2);
  ReduceScatter{.in = in, .out = out, .onto = out}.check(2);
  ReduceScatter{.in = std::span(in).first(0), .out = std::span(out).first(0)}.check(7);
}

TEST(ReduceScatterRequest, RejectsWrongSizes) {
  std::vector<std::byte> in(48), out(24), narrow(12);
  EXPECT_THROW((ReduceScatter{.in = in, .out = narrow}.check(2)), InternalError);
  EXPECT_THROW((ReduceScatter{.in = in, .out = out}.check(5)), InternalError);
  EXPECT_THROW((ReduceScatter{.in = in, .out = std::span(out).first(23)}.check(2)), InternalError);
  EXPECT_THROW((ReduceScatter{.in = in, .out = out, .onto = narrow}.check(2)), InternalError);
  EXPECT_THROW((ReduceScatter{.in = in, .out = narrow, .out_dtype = DType::kBFloat16, .accumulate = true}.check(2)),
               InternalError);
}

// The memory may be empty.
TEST(CommunicatorMemory, IsZeroedAndAligned) {
  const auto comms = make_in_process(1, std::chrono::seconds(1));
  // The default allocate(), which the message transports use.
  const Allocation memory = comms[0]->Communicator::allocate(100000);
  EXPECT_EQ(memory.size(), 100000u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 64, 0u);
  EXPECT_TRUE(
      std::ranges::all_of(memory.bytes().begin(), memory.bytes().end(), [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_FALSE(comms[0]->Communicator::allocate(0));
}

TEST(CommunicatorDefault, ReducesWorldOfOneInPlace) {
  const auto comms = make_in_process(1, std::chrono::seconds(1));
  std::vector<float> data{3, 4};
  ReduceStats stats;
  const auto bytes = std::as_writable_bytes(std::span(data));
  comms[0]->Communicator::reduce_scatter({.in = bytes, .out = bytes, .stats = &stats}, {}).wait();
  EXPECT_EQ(data, (std::vector<float>{3, 4}));
  EXPECT_EQ(stats.sum_squares.value(), 25);
}

struct TwoRanks {
  std::vector<std::unique_ptr<Communicator>> comms = make_in_process(2, std::chrono::seconds(1));
  std::array<std::vector<float>, 2> in{std::vector<float>(5000, 1.0F), std::vector<float>(5000, 10.0F)};
  std::array<std::vector<float>, 2> out{std::vector<float>(2500), std::vector<float>(2500)};

  Work reduce(std::size_t rank) {
    return comms[rank]->reduce_scatter(
        {.in = std::as_bytes(std::span(in[rank])), .out = std::as_writable_bytes(std::span(out[rank]))}, {});
  }
};

TEST(WorkHandle, ReductionFinishesOnceAllBegan) {
  TwoRanks ranks;
  Work first = ranks.reduce(0);
  EXPECT_FALSE(first.try_complete());
  EXPECT_EQ(ranks.out[0][0], 0);
  Work second = ranks.reduce(1);
  EXPECT_TRUE(first.try_complete());
  EXPECT_EQ(ranks.out[0], std::vector<float>(2500, 11.0F));
  EXPECT_FALSE(first.finished()) << "wait() has not been called yet";
  ranks.out[0][0] = 7;
  EXPECT_TRUE(first.try_complete());
  first.wait();
  EXPECT_EQ(ranks.out[0][0], 7) << "the bytes are moved once";
  EXPECT_TRUE(first.try_complete());
  second.wait();
  EXPECT_EQ(ranks.out[1], std::vector<float>(2500, 11.0F));
}

TEST(WorkHandle, FinishedRankWaitsForNobody) {
  TwoRanks ranks;
  Work first = ranks.reduce(0), second = ranks.reduce(1);
  EXPECT_TRUE(first.try_complete());
  ranks.comms[0]->drain();  // rank 1 may still wait for a later collective of rank 0
  second.wait();
  first.wait();
  ranks.comms[0]->drain();
}

TEST(WorkHandle, UnknownProgressIsNotEarlyCompletion) {
  TwoRanks ranks;
  std::array<Work, 2> works;
  for (std::size_t rank = 0; rank < 2; ++rank)
    works[rank] = ranks.comms[rank]->broadcast(std::as_writable_bytes(std::span(ranks.out[rank])), 0, {});
  EXPECT_FALSE(works[1].try_complete());
  for (Work& work : works) work.wait();
}

TEST(WorkHandle, IsWaitedOnceAndMoves) {
  struct Counting final : Work::Operation {
    explicit Counting(int& count) : count(count) {}
    void wait() override { ++count; }
    int& count;
  };
  int count = 0;
  Work work(std::make_unique<Counting>(count));
  EXPECT_FALSE(work.finished());
  Work moved = std::move(work);
  moved.wait();
  moved.wait();
  EXPECT_EQ(count, 1);
  EXPECT_TRUE(moved.finished());
  EXPECT_TRUE(Work().finished());
}

TEST(WorkHandle, AnErrorLeavesItFinished) {
  struct Failing final : Work::Operation {
    void wait() override { throw CommError(2, "barrier #1", "died"); }
  };
  Work work(std::make_unique<Failing>());
  EXPECT_THROW(work.wait(), CommError);
  EXPECT_TRUE(work.finished());
  work.wait();
}

}  // namespace
}  // namespace zero
