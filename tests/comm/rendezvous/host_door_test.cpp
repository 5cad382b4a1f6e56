#include "zero/comm/rendezvous/host_door.h"

#include <array>
#include <chrono>
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/comm/rendezvous/host_rendezvous.h"

#include "tests/support/expect_contains.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Result = UnixSocket::Result;

constexpr std::size_t kBoardBytes = 1 << 20;
constexpr milliseconds kPatience{20'000};

HostRendezvous meet(const std::string& name, int rank, int world, const HostReplacements& replacements,
                    int generation = 0) {
  return meet_on_host(name, rank, world, generation, kBoardBytes, kPatience, replacements);
}

// A run of three ranks. Rank 2 has left, and rank 0 accepts replacements.
class HostDoorTest : public ::testing::Test {
 protected:
  HostDoorTest() {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back(
          [this, rank] { ranks_[static_cast<std::size_t>(rank)] = meet(name_, rank, 3, {.most = 2}); });
    threads.clear();
    ranks_[2].reset();
  }

  HostDoor& door() { return *ranks_[0]->door; }

  // Starts a process as a replacement of a rank. The future has its rendezvous or its error.
  std::future<HostRendezvous> come(int replacement = 1, int rank = 2, int world = 3, int generation = 0) {
    return std::async(std::launch::async,
                      [=, this] { return meet(name_, rank, world, {.number = replacement, .most = 2}, generation); });
  }

  int await_knock(RankSet wanted) {
    std::optional<int> rank;
    while (!(rank = door().knocking(wanted))) std::this_thread::sleep_for(milliseconds(1));
    return *rank;
  }

  // The error of the process while rank 0 looks at its door.
  std::string refusal(std::future<HostRendezvous> process) {
    while (process.wait_for(milliseconds(1)) != std::future_status::ready) EXPECT_FALSE(door().knocking(only(2)));
    try {
      process.get();
    } catch (const CommError& error) {
      return error.what();
    }
    return "it was let in";
  }

  std::string name_ = fmt::format("zero.cpp-door-{}", getpid());
  std::array<std::optional<HostRendezvous>, 3> ranks_;
};

void expect_connected(UnixSocket& one, UnixSocket& other) {
  const int sent = 42;
  int received = 0;
  EXPECT_EQ(one.send(&sent, sizeof sent, -1, kPatience), Result::kDone);
  EXPECT_EQ(other.receive(&received, sizeof received, nullptr, kPatience), Result::kDone);
  EXPECT_EQ(received, sent);
}

TEST_F(HostDoorTest, ReplacementGetsBoardAndNamedConnections) {
  auto process = come();
  EXPECT_EQ(await_knock(only(2)), 2);
  std::vector<UnixSocket> ends = door().hand_out(2, only(1));
  EXPECT_LT(ends[0].get(), 0);
  EXPECT_LT(ends[2].get(), 0);
  EXPECT_EQ(process.wait_for(milliseconds(20)), std::future_status::timeout) << "it does not begin yet";
  UnixSocket own = door().let_in(2);
  HostRendezvous theirs = process.get();
  EXPECT_TRUE(theirs.is_replacement);
  EXPECT_FALSE(ranks_[1]->is_replacement);
  expect_connected(own, theirs.sockets[0]);
  expect_connected(ends[1], theirs.sockets[1]);
  ranks_[0]->board.data()[7] = std::byte{9};
  EXPECT_EQ(theirs.board.data()[7], std::byte{9});
  EXPECT_FALSE(door().knocking(only(2))) << "nobody waits any more";
}

TEST_F(HostDoorTest, OneThatNobodyMissesWaits) {
  auto process = come();
  EXPECT_EQ(await_knock(only(1) | only(2)), 2);
  EXPECT_FALSE(door().knocking(only(1)));
  EXPECT_EQ(door().knocking(only(2)), 2);
  door().let_in(2);
  EXPECT_TRUE(process.get().is_replacement);
}

TEST_F(HostDoorTest, ForgetsProcessThatEndsWaiting) {
  std::optional<UnixSocket> process = UnixSocket::connect(name_);
  ASSERT_TRUE(process);
  const std::int32_t hello[5] = {0x7a630003, 2 | (1 << 16), 3, 4711, 0};
  process->send(hello, sizeof hello, -1, kPatience);
  EXPECT_EQ(await_knock(only(2)), 2);
  process.reset();
  EXPECT_FALSE(door().knocking(only(2)));
}

// Rank 0 looks at its door between the connection and the hello of the process.
TEST_F(HostDoorTest, LateHelloCounts) {
  std::optional<UnixSocket> process = UnixSocket::connect(name_);
  ASSERT_TRUE(process);
  EXPECT_FALSE(door().knocking(only(2)));
  const std::int32_t hello[5] = {0x7a630003, 2 | (1 << 16), 3, 4711, 0};
  ASSERT_EQ(process->send(hello, sizeof hello, -1, kPatience), Result::kDone);
  EXPECT_EQ(await_knock(only(2)), 2);
}

TEST_F(HostDoorTest, ConnectionNoticesDeathAfterHandout) {
  std::optional<UnixSocket> process = UnixSocket::connect(name_);
  const std::int32_t hello[5] = {0x7a630003, 2 | (1 << 16), 3, 4711, 0};
  process->send(hello, sizeof hello, -1, kPatience);
  EXPECT_EQ(await_knock(only(2)), 2);
  process.reset();
  std::vector<UnixSocket> ends = door().hand_out(2, only(1));
  UnixSocket own = door().let_in(2);
  char byte = 0;
  EXPECT_EQ(own.receive(&byte, 1, nullptr, kPatience), Result::kGone);
  EXPECT_EQ(ends[1].receive(&byte, 1, nullptr, kPatience), Result::kGone);
}

TEST_F(HostDoorTest, NewerProcessOfRankCounts) {
  auto first = come(1);
  await_knock(only(2));
  auto second = come(2);
  while (first.wait_for(milliseconds(1)) != std::future_status::ready) door().knocking(only(2));
  EXPECT_THROW(first.get(), CommError);
  door().let_in(2);
  EXPECT_TRUE(second.get().is_replacement);
}

TEST_F(HostDoorTest, RefusesStrangerAndRunContinues) {
  EXPECT_CONTAINS(refusal(come(0)), "is a second rank 2: two runs have one name; set ZERO_RUN_ID");
  EXPECT_CONTAINS(refusal(come(1, 2, 4)), "believes it is rank 2 of 4, rank 0 counts 3 ranks");
  EXPECT_CONTAINS(refusal(come(1, 2, 3, 1)), "rank 2 is of generation 1, this run is at generation 0");
}

TEST_F(HostDoorTest, EndTellsWaitingProcesses) {
  auto process = come();
  await_knock(only(2));
  ranks_[0]->door.reset();
  try {
    process.get();
    FAIL() << "it was let in";
  } catch (const CommError& error) {
    EXPECT_CONTAINS(error.what(), "the run ended before this process could be taken back");
    EXPECT_EQ(error.rank(), -1) << "nobody is at fault";
  }
}

TEST(HostDoor, OpensOnlyForReplacements) {
  const std::string name = fmt::format("zero.cpp-no-door-{}", getpid());
  std::jthread other([&] { meet(name, 1, 2, {}); });
  EXPECT_FALSE(meet(name, 0, 2, {}).door);
  EXPECT_FALSE(UnixSocket::connect(name)) << "nobody listens after the rendezvous";
}

}  // namespace
}  // namespace zero
