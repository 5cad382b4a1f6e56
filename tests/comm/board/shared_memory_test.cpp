#include "zero/comm/board/shared_memory.h"

#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

RankEnvironment rank_of(int rank, int world, const std::string& run_id) {
  return {.rank = rank, .world = world, .local_rank = rank, .local_world = world, .run_id = run_id};
}

TEST(SharedMemory, SaysWhoItIs) {
  const auto comm = connect_shared_memory({}, milliseconds(1234));
  EXPECT_EQ(comm->transport(), "shared_memory");
  EXPECT_EQ(comm->rank(), 0);
  EXPECT_EQ(comm->world(), 1);
  EXPECT_EQ(comm->timeout(), milliseconds(1234));
}

// The run ids are longer than the name of a socket.
TEST(SharedMemory, LongRunIdsStayDistinct) {
  // Two runs at the same time, whose names differ in the last of 300 letters.
  const std::string base = fmt::format("{}-{}", getpid(), std::string(300, 'x'));
  std::vector<std::jthread> threads;
  std::int64_t sums[4] = {};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const auto comm = connect_shared_memory(rank_of(i % 2, 2, base + (i < 2 ? "a" : "b")), milliseconds(10000));
      for (const std::int64_t value : all_gather_value(*comm, i)) sums[i] += value;
    });
  }
  threads.clear();
  EXPECT_EQ(sums[0], 1);
  EXPECT_EQ(sums[1], 1);
  EXPECT_EQ(sums[2], 5);
  EXPECT_EQ(sums[3], 5);
}

TEST(SharedMemory, EarlierGenerationCannotJoin) {
  const std::string run_id = fmt::format("generations-{}", getpid());
  const auto of_generation = [&](int rank, int generation) {
    RankEnvironment ranks = rank_of(rank, 2, run_id);
    ranks.generation = generation;
    return connect_shared_memory(ranks, milliseconds(20000));
  };
  std::string zero_failed;
  std::jthread zero([&] {
    try {
      of_generation(0, 1)->barrier({}).wait();
    } catch (const CommError& error) {
      zero_failed = error.what();
    }
  });
  EXPECT_THROW(of_generation(1, 0), CommError);
  of_generation(1, 1)->barrier({}).wait();
  zero.join();
  EXPECT_EQ(zero_failed, "");
}

TEST(SharedMemory, ManyWindowsComeAndGo) {
  // More notices than a socket can hold. The peer reads each of them.
  const std::string run_id = fmt::format("windows-{}", getpid());
  const auto body = [&](int rank) {
    const auto comm = connect_shared_memory(rank_of(rank, 2, run_id), milliseconds(20000));
    std::vector<std::byte> out(2 * 5000);
    for (int round = 0; round < 600; ++round) {
      Allocation window = comm->allocate(5000);
      window.data()[4999] = static_cast<std::byte>(round + rank);
      comm->all_gather(window.bytes(), out, {}).wait();
      ASSERT_EQ(out[4999], static_cast<std::byte>(round));
      ASSERT_EQ(out[9999], static_cast<std::byte>(round + 1));
    }
  };
  std::jthread other([&] { body(1); });
  body(0);
}

TEST(SharedMemory, UnreadWindowsDoNotBlock) {
  // Rank 0 announces many windows to rank 1, which reads none of them for a long time.
  const std::string run_id = fmt::format("unread-{}", getpid());
  std::jthread other([&] {
    const auto comm = connect_shared_memory(rank_of(1, 2, run_id), milliseconds(20000));
    std::vector<std::byte> data(5000);
    for (int i = 0; i < 40; ++i) comm->broadcast(data, 0, {}).wait();
    EXPECT_EQ(data[0], std::byte{39});
    comm->barrier({}).wait();
  });
  const auto comm = connect_shared_memory(rank_of(0, 2, run_id), milliseconds(20000));
  std::vector<Allocation> windows;
  for (int i = 0; i < 40; ++i) {
    windows.push_back(comm->allocate(5000));
    windows.back().data()[0] = static_cast<std::byte>(i);
    comm->broadcast(windows.back().bytes(), 0, {}).wait();
  }
  comm->barrier({}).wait();
  comm->drain();
}

}  // namespace
}  // namespace zero
