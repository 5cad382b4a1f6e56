#include "zero/comm/rendezvous/host_rendezvous.h"

#include <functional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "tests/support/expect_contains.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Result = UnixSocket::Result;

constexpr std::size_t kBoardBytes = 1 << 20;
constexpr milliseconds kLong{60000};  // ends a hang, not a slow machine
// For events that must be noticed at once. It is far beyond the suite's own limit, so no test can pass by this timeout.
constexpr std::chrono::hours kNever{1};

std::string name_here(const char* test) {
  return fmt::format("zero.cpp-rendezvous-{}-{}", test, getpid());
}

// The rendezvous of a rank, or its error.
struct Outcome {
  HostRendezvous rendezvous;
  std::string error;
};

Outcome attend(const std::string& name, int rank, int world, milliseconds timeout, int generation = 0) {
  try {
    return {meet_on_host(name, rank, world, generation, kBoardBytes, timeout), ""};
  } catch (const CommError& error) {
    return {{}, error.what()};
  }
}

TEST(HostRendezvous, OneRankMeetsItself) {
  const HostRendezvous rendezvous = meet_on_host(name_here("one"), 0, 1, 0, kBoardBytes, milliseconds(100));
  EXPECT_EQ(rendezvous.board.size(), kBoardBytes);
  EXPECT_EQ(rendezvous.sockets.size(), 1u);
}

TEST(HostRendezvous, AllPairsConnectAndShareBoard) {
  constexpr int kWorld = 5;
  const std::string name = name_here("all");
  std::vector<Outcome> outcomes(kWorld);
  {
    std::vector<std::jthread> threads;
    // Rank 0 arrives last.
    for (int rank = kWorld - 1; rank >= 0; --rank) {
      threads.emplace_back([&, rank] { outcomes[rank] = attend(name, rank, kWorld, kLong); });
    }
  }
  for (int a = 0; a < kWorld; ++a) {
    ASSERT_EQ(outcomes[a].error, "");
    EXPECT_LT(outcomes[a].rendezvous.sockets[a].get(), 0) << "no connection to itself";
    for (int b = 0; b < kWorld; ++b) {
      if (a == b) continue;
      const int sent = 10 * a + b;
      int received = -1;
      EXPECT_EQ(outcomes[a].rendezvous.sockets[b].send(&sent, sizeof sent, -1, kLong), Result::kDone);
      EXPECT_EQ(outcomes[b].rendezvous.sockets[a].receive(&received, sizeof received, nullptr, kLong), Result::kDone);
      EXPECT_EQ(received, sent);
    }
  }
  outcomes[0].rendezvous.board.data()[100] = std::byte{9};
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.rendezvous.board.data()[100], std::byte{9});
}

// The errors of ranks 0 and 3 of four, if ranks 1 and 2 never arrive.
std::pair<std::string, std::string> miss_two(milliseconds limit) {
  const std::string name = name_here("missing");
  Outcome zero, three;
  {
    std::jthread thread([&] { three = attend(name, 3, 4, limit); });
    zero = attend(name, 0, 4, limit);
  }
  return {zero.error, three.error};
}

// A busy machine may not start rank 3 within a short limit, so rank 3 would also be missing. The test then tries a
// longer limit.
TEST(HostRendezvous, MissingRankIsNamedByAll) {
  for (milliseconds limit{1000};; limit *= 4) {
    const auto [zero, three] = miss_two(limit);
    const std::string expected = fmt::format("ranks 1, 2 did not arrive within {} ms", limit.count());
    if (zero.find(expected) == std::string::npos && limit < kLong) continue;
    EXPECT_CONTAINS(zero, expected);
    EXPECT_CONTAINS(three, expected);
    return;
  }
}

TEST(HostRendezvous, RankZeroIsMissedByName) {
  EXPECT_CONTAINS(attend(name_here("zero"), 1, 2, milliseconds(50)).error,
                  "rank 0: rendezvous of the ranks: did not open");
}

// A replacement whose run has ended.
TEST(HostRendezvous, LateReplacementBlamesNobody) {
  try {
    meet_on_host(name_here("late"), 1, 2, 0, kBoardBytes, milliseconds(50), {.number = 1, .most = 1});
    FAIL() << "nobody is there";
  } catch (const CommError& error) {
    EXPECT_CONTAINS(error.what(), "the run has ended, or rank 0 has not begun");
    EXPECT_EQ(error.rank(), -1);
  }
}

TEST(HostRendezvous, ReplacementNamesDeadRankZero) {
  const std::string name = name_here("dead");
  std::optional<UnixSocket> listener = UnixSocket::listen(name);
  ASSERT_TRUE(listener);
  const std::jthread rank_zero([&] { listener->accept(kLong); });  // hangs up
  try {
    meet_on_host(name, 1, 2, 0, kBoardBytes, kNever, {.number = 1, .most = 1});
    FAIL() << "it was let in";
  } catch (const CommError& error) {
    EXPECT_CONTAINS(error.what(), "rank 0: rendezvous of the ranks: its process ended before this process");
  }
}

TEST(HostRendezvous, BothSidesRefuseDifferentWorld) {
  const std::string name = name_here("world");
  Outcome other;
  {
    std::jthread thread([&] { other = attend(name, 1, 3, kLong); });
    EXPECT_CONTAINS(attend(name, 0, 2, kLong).error, "believes it is rank 1 of 3, rank 0 counts 2 ranks");
  }
  EXPECT_CONTAINS(other.error, "believes it is rank 1 of 3, rank 0 counts 2 ranks");
}

TEST(HostRendezvous, AnotherVersionIsRefused) {
  const std::string name = name_here("version");
  Outcome host;
  std::jthread thread([&] { host = attend(name, 0, 2, kLong); });
  std::optional<UnixSocket> stranger;
  while (!(stranger = UnixSocket::connect(name))) std::this_thread::sleep_for(milliseconds(1));
  const std::int32_t hello[5] = {1, 1, 2, 4711, 0};
  stranger->send(hello, sizeof hello, -1, milliseconds(1000));
  thread.join();
  EXPECT_CONTAINS(host.error, "process 4711 runs another version of zero.cpp");
}

TEST(HostRendezvous, DistrustsRankZeroNamingMissingRanks) {
  struct {
    std::int32_t kind = 1;  // a socket to another rank
    std::int32_t rank = 0;
    char reason[512] = {};
  } answer;
  for (const std::int32_t rank : {-1, 0, 1, 2, 99}) {
    const std::string name = name_here("nonsense");
    std::optional<UnixSocket> listener = UnixSocket::listen(name);
    ASSERT_TRUE(listener);
    Outcome outcome;
    std::jthread thread([&] { outcome = attend(name, 1, 2, kLong); });
    std::optional<UnixSocket> socket = listener->accept(kLong);
    ASSERT_TRUE(socket);
    answer.rank = rank;
    const auto [ours, theirs] = UnixSocket::pair();
    socket->send(&answer, sizeof answer, theirs.get(), milliseconds(1000));
    thread.join();
    EXPECT_CONTAINS(outcome.error, "leads rank 1 of 2 to a rank " + std::to_string(rank));
  }
}

// The rank of an earlier generation gets an error, and the others meet without it.
TEST(HostRendezvous, EarlierGenerationsRankIsRefused) {
  const std::string name = name_here("stale");
  Outcome host, stale, fresh;
  {
    std::jthread zero([&] { host = attend(name, 0, 3, kLong, 2); });
    stale = attend(name, 2, 4, kLong, 1);
    EXPECT_CONTAINS(stale.error,
                    "rank 2: rendezvous of the ranks: rank 2 is of generation 1, this run is at generation 2");
    std::jthread one([&] { attend(name, 1, 3, kLong, 2); });
    fresh = attend(name, 2, 3, kLong, 2);
  }
  EXPECT_EQ(host.error, "");
  EXPECT_EQ(fresh.error, "");
}

TEST(HostRendezvous, EarlierGenerationsRankZeroGivesUp) {
  const std::string name = name_here("stale-zero");
  Outcome stale;
  std::jthread zero([&] { stale = attend(name, 0, 2, kLong, 1); });
  const std::string why = "rank 0: rendezvous of the ranks: rank 0 is of generation 1, this run is at generation 2";
  const Outcome fresh = attend(name, 1, 2, kLong, 2);
  EXPECT_CONTAINS(fresh.error, why);
  zero.join();
  EXPECT_CONTAINS(stale.error, why);
}

// The rank dies before all ranks have arrived.
TEST(HostRendezvous, NoticesEarlyDeathAtOnce) {
  const std::string name = name_here("death");
  Outcome host;
  std::jthread thread([&] { host = attend(name, 0, 3, kNever); });
  std::optional<UnixSocket> rank_1;
  while (!(rank_1 = UnixSocket::connect(name))) std::this_thread::sleep_for(milliseconds(1));
  const std::int32_t hello[5] = {0x7a630003, 1, 3, 4711, 0};
  rank_1->send(hello, sizeof hello, -1, milliseconds(1000));
  rank_1.reset();  // rank 0 still reads the bytes that it sent
  thread.join();
  EXPECT_CONTAINS(host.error, "rank 1: rendezvous of the ranks: its process ended before all ranks arrived");
}

// A busy machine stops rank 1 for more than a second between its connection and its hello.
TEST(HostRendezvous, LateHelloCounts) {
  const std::string name = name_here("late-hello");
  Outcome host;
  std::jthread thread([&] { host = attend(name, 0, 2, kLong); });
  std::optional<UnixSocket> rank_1;
  while (!(rank_1 = UnixSocket::connect(name))) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(1200));
  const std::int32_t hello[5] = {0x7a630003, 1, 2, 4711, 0};
  EXPECT_EQ(rank_1->send(hello, sizeof hello, -1, milliseconds(1000)), Result::kDone);
  thread.join();
  EXPECT_EQ(host.error, "");
}

TEST(HostRendezvous, ATakenNameIsSaid) {
  const std::string name = name_here("taken");
  const auto squatter = UnixSocket::listen(name);
  ASSERT_TRUE(squatter);
  EXPECT_CONTAINS(attend(name, 0, 2, milliseconds(100)).error, "another run on this machine is called");
}

// A signal that is deferred until the end of a step, as in `zero train`. Here it arrives before the first step, and the
// rank does not wait.
TEST(HostRendezvous, EndedRankDoesNotWait) {
  sigset_t deferred, before;
  sigemptyset(&deferred);
  sigaddset(&deferred, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &deferred, &before);
  raise(SIGTERM);
  for (const int rank : {0, 1}) {
    const std::string error = attend(name_here("told"), rank, 3, kNever).error;
    EXPECT_CONTAINS(error, fmt::format("rank {}: rendezvous of the ranks: received SIGINT", rank));
  }
  int taken = 0;
  sigwait(&deferred, &taken);
  EXPECT_EQ(taken, SIGTERM) << "the signal stays pending for the code that blocked it";
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace zero
