// Waits for the first of several messages, over a MessageLink.
#include <algorithm>
#include <latch>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/arrivals.h"
#include "zero/comm/board/board.h"

#include "tests/comm/arriving_numbers.h"
#include "tests/comm/fake_link.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{10000};

TEST(MessageArrivals, TheFirstMessageEndsTheWait) {
  FakeNetwork network;
  EXPECT_EQ(run_over(network, 3, kLong, the_first_message_ends_the_wait), std::vector<std::string>(3));
}

TEST(MessageArrivals, TimeoutOnlyEndsTheWait) {
  FakeNetwork network;
  EXPECT_EQ(run_over(network, 2, kLong, a_limit_ends_the_wait_and_nothing_else), std::vector<std::string>(2));
}

TEST(MessageArrivals, SentMessagesMayChange) {
  FakeNetwork network;
  std::latch changed(1);
  const auto ends = run_over(network, 2, kLong, [&](Communicator& comm) {
    std::vector<std::byte> small(kInlineBytes), large(kInlineBytes + 1);
    if (comm.rank() == 0) {
      for (std::vector<std::byte>* message : {&small, &large}) {
        std::ranges::fill(*message, std::byte{7});
        send_message(comm, *message, 1);
        std::ranges::fill(*message, std::byte{9});
        if (message == &small) changed.count_down();
      }
      return;
    }
    changed.wait();
    for (std::vector<std::byte>* message : {&small, &large}) {
      Work work = comm.receive(*message, 0, {.control = true});
      await_message(comm, work, 0);
      EXPECT_TRUE(std::ranges::all_of(*message, [](std::byte byte) { return byte == std::byte{7}; }));
    }
  });
  EXPECT_EQ(ends, std::vector<std::string>(2));
}

TEST(MessageArrivals, LeavingRankDeliversItsMessages) {
  FakeNetwork network;
  const auto ends = run_over(network, 2, kLong, [](Communicator& comm) {
    if (comm.rank() == 1) {
      EXPECT_EQ(take_number(comm, 0), 1);
      return send_number(comm, 2, 0);
    }
    send_number(comm, 1, 1);
    int value = 0;
    Work work = comm.receive(bytes_of_number(value), 1, {});
    EXPECT_TRUE(comm.arrivals()->await([&] { return comm.arrivals()->lost(1); }));
    await_message(comm, work, 1);
    EXPECT_EQ(value, 2);
    take_number(comm, 1);
  });
  EXPECT_EQ(ends[0], "rank 1: receive: it left the run while rank 0 waits for it");
  EXPECT_EQ(ends[1], "");
}

// Ranks 0 and 1 wait for each other. Rank 2 dies when both wait, because a failing rank tells the others only for half
// a second.
TEST(MessageArrivals, DeadRankEndsEveryWait) {
  FakeNetwork network;
  std::latch wait(2);
  const auto ends = run_over(network, 3, kLong, [&](Communicator& comm) {
    if (comm.rank() == 2) {
      wait.wait();
      throw std::runtime_error("died");
    }
    wait.count_down();
    take_number(comm, 1 - comm.rank());
  });
  EXPECT_CONTAINS(ends[0], "rank 2: receive: its process ended or left; rank ");
  EXPECT_CONTAINS(ends[0], "waits for messages (a cable was cut)");
  EXPECT_CONTAINS(ends[1], "rank 2: receive: its process ended or left; rank ");
}

TEST(MessageArrivals, AFailureReachesWhoeverWaits) {
  FakeNetwork network;
  std::latch wait(2);
  const auto ends = run_over(network, 3, milliseconds(50), [&](Communicator& comm) {
    std::vector<std::byte> data(10);
    if (comm.rank() == 1) {
      wait.wait();  // until the others wait and can be told
      comm.receive(data, 2, {}).wait();
    }
    wait.count_down();
    take_number(comm, 1);  // no limit; rank 2 also waits, and sends nothing
  });
  EXPECT_EQ(ends[1], "rank 2: send #1 (10 bytes): it is absent after 50 ms; rank 1 waits for it");
  EXPECT_EQ(ends[0], ends[1]);
}

// Rank 2 calls may_be_lost(), so the run survives its death.
TEST(MessageArrivals, RunSurvivesAnExpendableRank) {
  FakeNetwork network;
  const auto ends = run_over(network, 3, kLong, [](Communicator& comm) {
    if (comm.rank() == 2) comm.arrivals()->may_be_lost();
    comm.barrier({}).wait();  // so rank 1 knows this before rank 2 dies
    if (comm.rank() == 2) {
      send_number(comm, 1, 0);
      EXPECT_EQ(take_number(comm, 0), 3);
      throw std::runtime_error("died");
    }
    if (comm.rank() == 1) {
      EXPECT_EQ(take_number(comm, 0), 7);
      EXPECT_TRUE(comm.arrivals()->await([&] { return comm.arrivals()->lost(2); }));
      return;
    }
    EXPECT_EQ(take_number(comm, 2), 1);
    send_number(comm, 3, 2);
    int value = 0;
    Work work = comm.receive(bytes_of_number(value), 2, {});
    EXPECT_TRUE(comm.arrivals()->await([&] { return work.try_complete() || comm.arrivals()->lost(2); }));
    EXPECT_FALSE(work.try_complete());
    const std::vector<std::byte> large(2 * kInlineBytes);
    comm.send(large, 2, {}).wait();  // nobody receives it
    comm.drain();
    send_number(comm, 7, 1);
  });
  EXPECT_EQ(ends, (std::vector<std::string>{"", "", "died"}));
}

// A waiting rank expects the header of the next collective early. It receives a rank's notice instead.
TEST(MessageArrivals, CollectivesGoOnBetweenWaits) {
  FakeNetwork network;
  const auto ends = run_over(network, 3, kLong, [](Communicator& comm) {
    if (comm.rank() == 2) comm.arrivals()->may_be_lost();
    for (int round = 0; round < 3; ++round) {
      std::vector<std::byte> in(8, static_cast<std::byte>(10 * round + comm.rank())), out(24);
      comm.all_gather(in, out, {}).wait();
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(out[static_cast<std::size_t>(8 * rank)], static_cast<std::byte>(10 * round + rank));
      if (comm.rank() == 0) {
        send_number(comm, round, 1);
      } else if (comm.rank() == 1) {
        EXPECT_EQ(take_number(comm, 0), round);
      }
    }
    comm.drain();
    if (comm.rank() == 2) throw std::runtime_error("died");
    EXPECT_TRUE(comm.arrivals()->await([&] { return comm.arrivals()->lost(2); }));
  });
  EXPECT_EQ(ends, (std::vector<std::string>{"", "", "died"}));
}

// A rank dies after it has begun the next collectives.
TEST(MessageArrivals, LaterCollectivesStillEndTheWait) {
  FakeNetwork network;
  const auto ends = run_over(network, 3, kLong, [](Communicator& comm) {
    if (comm.rank() == 2) {
      const Work first = comm.barrier({}), second = comm.barrier({});
      EXPECT_EQ(take_number(comm, 0), 1);
      throw std::runtime_error("died");
    }
    if (comm.rank() == 1) return comm.barrier({}).wait();
    int value = 0;
    Work work = comm.receive(bytes_of_number(value), 1, {});
    EXPECT_FALSE(comm.arrivals()->await([&] { return work.try_complete(); }, milliseconds(5)));
    send_number(comm, 1, 2);
    await_message(comm, work, 1);
  });
  EXPECT_CONTAINS(ends[0], "rank 2: receive: its process ended or left");
}

TEST(MessageArrivals, CollectiveMissesARankThatLeft) {
  FakeNetwork network;
  const auto ends = run_over(network, 2, kLong, [](Communicator& comm) {
    EXPECT_TRUE(comm.arrivals()->await([] { return true; }));
    if (comm.rank() == 0) comm.barrier({}).wait();
  });
  EXPECT_EQ(ends[0], "rank 1: barrier #1: it left the run while rank 0 waits for it");
}

}  // namespace
}  // namespace zero
