// Ranks that disagree, come late or die, over the transports of MessageCommunicator (gloo).
#include <filesystem>
#include <string>
#include <thread>

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

#include "tests/support/expect_contains.h"
#include "tests/support/unclaimed_port.h"
#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

class Messages : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const TransportStatus& status : transport_statuses()) {
      if (status.name == "gloo" && !status.available) GTEST_SKIP() << status.why;
    }
  }
  static World world(int size, milliseconds timeout = milliseconds(20000)) {
    return {.transport = "gloo", .size = size, .timeout = timeout};
  }
};

// Both ranks get the names.
TEST_F(Messages, OtherCollectiveNamesBothRanks) {
  const auto ends = run_world(world(2), [](Communicator& comm) {
    std::vector<std::byte> in(100), out(200);
    comm.barrier({}).wait();
    if (comm.rank() == 0) {
      comm.all_gather(in, out, {.unit = 3}).wait();
    } else {
      comm.barrier({.unit = 5}).wait();
    }
  });
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_CONTAINS(ends[0], "rank 0 does all_gather #2 (unit 3, 100 bytes), rank 1 does barrier #2 (unit 5)");
}

TEST_F(Messages, MismatchReachesUnawareRank) {
  // Ranks 0 and 2 disagree. Rank 1 gets the error at its next collective.
  const auto ends = run_world(world(3), [](Communicator& comm) {
    std::vector<std::byte> data(comm.rank() == 2 ? 20 : 10);
    if (comm.rank() == 0) comm.send(data, 2, {}).wait();
    if (comm.rank() == 2) comm.receive(data, 0, {}).wait();
    comm.barrier({}).wait();
  });
  EXPECT_CONTAINS(ends[2], "rank 0 does send #1 (10 bytes)");
  for (const int rank : {0, 1}) EXPECT_NE(ends[rank], "");
}

TEST_F(Messages, ALateRankIsNamed) {
  const GivenUp given_up;
  const auto ends = run_world(world(3, kSoon), [&](Communicator& comm) {
    comm.barrier({}).wait();
    if (comm.rank() == 1) given_up.stay_away_until(2);
    given_up.note([&] { comm.barrier({.unit = 9}).wait(); });
  });
  for (const int rank : {0, 2}) EXPECT_CONTAINS(ends[rank], "rank 1: barrier #2 (unit 9): it is absent after 1000 ms");
  EXPECT_NE(ends[1], "");
}

TEST_F(Messages, AKilledRankIsNamed) {
  const auto ends = run_world(world(3, kNever), [](Communicator& comm) {
    std::vector<std::byte> in(100000), out(300000);
    for (int round = 0;; ++round) {
      if (comm.rank() == 2 && round == 20) kill(getpid(), SIGKILL);
      comm.all_gather(in, out, {}).wait();
      comm.drain();
    }
  });
  EXPECT_EQ(ends[2], "signal 9");
  // The first rank to notice names the dead rank. The other rank may first notice the end of that rank.
  EXPECT_TRUE(ends[0].starts_with("rank 2: all_gather") || ends[1].starts_with("rank 2: all_gather"))
      << ends[0] << ends[1];
}

// The rank is named at once, although Gloo does not end a transfer within a message when the connection ends.
TEST_F(Messages, KillWithinMessageNamesRank) {
  for (const int victim : {0, 1}) {
    SCOPED_TRACE(victim);
    const auto ends = run_world(world(2, kNever), [victim](Communicator& comm) {
      std::vector<std::byte> data(std::size_t{128} << 20);
      comm.barrier({}).wait();
      std::jthread killer;
      if (comm.rank() == victim) {
        killer = std::jthread([] {
          std::this_thread::sleep_for(milliseconds(5));  // meanwhile a few megabytes have been sent
          kill(getpid(), SIGKILL);
        });
      }
      for (;;) comm.rank() == 0 ? comm.send(data, 1, {}).wait() : comm.receive(data, 0, {}).wait();
    });
    EXPECT_EQ(ends[static_cast<std::size_t>(victim)], "signal 9");
    EXPECT_CONTAINS(ends[static_cast<std::size_t>(1 - victim)], fmt::format("rank {}: send", victim));
    EXPECT_CONTAINS(ends[static_cast<std::size_t>(1 - victim)], "its process ended or left");
  }
}

// The other ranks end although no rank has received the sent message.
TEST_F(Messages, OwnErrorEndsTheOthers) {
  const auto ends = run_world(world(2, kNever), [](Communicator& comm) {
    comm.barrier({}).wait();
    const Allocation window = comm.allocate(std::size_t{32} << 20);
    if (comm.rank() == 0) {
      const Work sent = comm.send(window.bytes(), 1, {});
      throw std::runtime_error("the disk is gone");
    }
    comm.barrier({}).wait();
  });
  EXPECT_EQ(ends[0], "the disk is gone");
  EXPECT_EQ(ends[1], "rank 0: its part of the run: it left with an error of its own");
}

TEST_F(Messages, WaitChainNamesDeadRank) {
  const auto ends = run_world(world(3, kNever), [](Communicator& comm) {
    std::vector<std::byte> data(100);
    for (int round = 0;; ++round) {
      if (comm.rank() == 2 && round == 5) kill(getpid(), SIGKILL);
      if (comm.rank() < 2) comm.receive(data, comm.rank() + 1, {}).wait();
      if (comm.rank() > 0) comm.send(data, comm.rank() - 1, {}).wait();
      comm.drain();
    }
  });
  EXPECT_TRUE(ends[1].starts_with("rank 2: ")) << ends[1];
  EXPECT_TRUE(ends[0].starts_with("rank 2: ")) << ends[0];
}

// Gloo's thread must not take a core from the sending thread when it wakes. Each message would then cost a time slice
// (decision 0074).
TEST_F(Messages, GloosThreadTakesNoCore) {
  expect_world(world(2), [](Communicator&) {
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    int others = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
      others += sched_getscheduler(std::stoi(task.path().filename())) == SCHED_BATCH ? 1 : 0;
    EXPECT_EQ(others, 1);
  });
}

TEST_F(Messages, AnErrorSticks) {
  const auto ends = run_world(world(2), [](Communicator& comm) {
    if (comm.rank() == 0) throw std::runtime_error("a loss of NaN");
    EXPECT_THROW(comm.barrier({}).wait(), CommError);
    EXPECT_THROW(static_cast<void>(comm.barrier({})), CommError);
    EXPECT_THROW(comm.drain(), CommError);
  });
  EXPECT_EQ(ends[0], "a loss of NaN");
  EXPECT_EQ(ends[1], "");
}

TEST_F(Messages, MissingRankIsNamed) {
  const auto ends = run_world(world(1), [](Communicator&) {
    const auto connect = [](const char* run_id, int port) -> std::string {
      try {
        RankEnvironment ranks{.rank = 0, .world = 2, .local_world = 2, .run_id = run_id};
        ranks.master_port = port;
        open_transport("gloo", ranks, milliseconds(300));
        return "";
      } catch (const CommError& error) {
        return error.what();
      }
    };
    EXPECT_CONTAINS(connect("alone", unclaimed_port()), "rank 1: opening gloo: did not arrive within 300 ms");
  });
  EXPECT_EQ(ends[0], "");
}

TEST_F(Messages, RunsOnOnePortStaySeparate) {
  const int port = unclaimed_port();
  const auto connect = [&](int rank, const char* run_id) -> std::string {
    try {
      RankEnvironment ranks{.rank = rank, .world = 2, .local_rank = rank, .local_world = 2, .run_id = run_id};
      ranks.master_port = port;
      open_transport("gloo", ranks, milliseconds(1500));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  std::string host, again;
  std::jthread first([&] { host = connect(0, "one"); });
  EXPECT_CONTAINS(connect(1, "two"), fmt::format("another run ('one') meets at 127.0.0.1:{}", port));
  std::jthread second([&] { again = connect(0, "two"); });
  second.join();
  first.join();
  EXPECT_CONTAINS(again, fmt::format("port {} of rank 0: Address already in use", port));
  EXPECT_CONTAINS(host, "rank 1: opening gloo: did not arrive");
}

}  // namespace
}  // namespace zero
