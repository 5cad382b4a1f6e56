// Arrivals: waiting for the message that comes first, and continuing without a lost rank.
#include "zero/comm/board/arrivals.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/board.h"

#include "tests/comm/arriving_numbers.h"
#include "tests/support/expect_contains.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

class ArrivalsTest : public ::testing::TestWithParam<std::string> {
 protected:
  World world(int size) const { return {.transport = GetParam(), .size = size}; }
};

// Transports of worlds that the tests start themselves, because no rank of a launched world leaves.
std::vector<std::string> own_transports() {
  return launched_transport().empty() ? transports() : std::vector<std::string>();
}
INSTANTIATE_TEST_SUITE_P(Transports, ArrivalsTest, ::testing::ValuesIn(own_transports()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ArrivalsTest);

// Transports whose ranks are processes, which can be killed.
class ProcessArrivals : public ArrivalsTest {};
std::vector<std::string> process_transports() {
  std::vector<std::string> names = own_transports();
  std::erase_if(names, [](const std::string& name) { return name == "in_process" || name == "recorded"; });
  return names;
}
INSTANTIATE_TEST_SUITE_P(Transports, ProcessArrivals, ::testing::ValuesIn(process_transports()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProcessArrivals);

TEST_P(ArrivalsTest, TheFirstMessageEndsTheWait) {
  expect_world(world(3), the_first_message_ends_the_wait);
}

// The messages are so large that no transport accepts them before they are received. Rank 2 tells rank 1 when to read
// the next.
TEST_P(ArrivalsTest, SenderCountsUnreadMessages) {
  expect_world(world(3), [](Communicator& comm) {
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    if (comm.rank() == 2) {
      for (int turn = 0; turn < 2; ++turn) send_number(comm, take_number(comm, 0), 1);
      return;
    }
    if (comm.rank() == 1) {
      std::vector<std::byte> bytes(kBytes);
      for (int message = 0; message < 3; ++message) {
        if (message < 2) take_number(comm, 2);
        Work work = comm.receive(bytes, 0, {});
        await_message(comm, work, 0);
        EXPECT_EQ(bytes.back(), std::byte(message));
        if (message == 0) send_number(comm, 1, 0);
      }
      return;
    }
    Arrivals& arrivals = *comm.arrivals();
    std::vector<std::vector<std::byte>> sent;
    for (int message = 0; message < 3; ++message) sent.emplace_back(kBytes, std::byte(message));
    for (const auto& message : sent) comm.send(message, 1, {}).wait();
    EXPECT_EQ(arrivals.unread(1), 3);
    EXPECT_EQ(arrivals.unread(2), 0);
    send_number(comm, 1, 2);
    take_number(comm, 1);
    await_reader(comm, 1, 2);
    EXPECT_EQ(arrivals.unread(1), 2);
    send_number(comm, 1, 2);
    await_reader(comm, 1);
  });
}

TEST_P(ArrivalsTest, LimitEndsTheWaitOnly) {
  expect_world(world(2), a_limit_ends_the_wait_and_nothing_else);
}

TEST_P(ArrivalsTest, SentMessageMayChange) {
  expect_world(world(2), [](Communicator& comm) {
    for (const std::size_t size : {std::size_t{1}, kInlineBytes, kInlineBytes + 1, 4 * kInlineBytes}) {
      std::vector<std::byte> message(size, comm.rank() == 0 ? std::byte{7} : std::byte{0});
      if (comm.rank() == 0) {
        send_message(comm, message, 1);
        std::ranges::fill(message, std::byte{9});
      } else {
        Work work = comm.receive(message, 0, {.control = true});
        await_message(comm, work, 0);
        EXPECT_EQ(message, std::vector<std::byte>(size, std::byte{7})) << size;
      }
    }
  });
}

TEST_P(ArrivalsTest, ASenderThatLeavesIsNamed) {
  const auto ends = run_world(world(2), [](Communicator& comm) {
    if (comm.rank() == 0) send_number(comm, 1, 1);
    take_number(comm, 1 - comm.rank());
  });
  EXPECT_CONTAINS(ends[0], "rank 1: receive: it left the run while rank 0 waits for it");
}

// Rank 0 blames rank 2 and leaves at once. Rank 1, which waits for rank 0, blames rank 2 also.
TEST_P(ArrivalsTest, EveryRankThrowsTheSameError) {
  const auto ends = run_world(world(3), [](Communicator& comm) {
    if (comm.rank() == 0) {
      take_number(comm, 1);
      comm.arrivals()->fail(2, "push", "it is absent after 6000 ms");
    }
    if (comm.rank() == 1) send_number(comm, 1, 0);
    take_number(comm, 0);
  });
  for (const int rank : {0, 1}) EXPECT_CONTAINS(ends[rank], "rank 2: push: it is absent after 6000 ms");
}

TEST_P(ProcessArrivals, LosableRankEndsNobody) {
  const auto ends = run_world(world(3), [](Communicator& comm) {
    if (comm.rank() == 2) comm.arrivals()->may_be_lost();
    comm.barrier({}).wait();
    if (comm.rank() == 2) {
      for (const int other : {0, 1})
        EXPECT_EQ(take_number(comm, other), other) << "both ranks know that it may be lost";
      kill(getpid(), SIGKILL);
    }
    send_number(comm, comm.rank(), 2);
    comm.arrivals()->await([&] { return comm.arrivals()->lost(2); });
    if (comm.rank() == 0) send_number(comm, 7, 1);
    if (comm.rank() == 1 && take_number(comm, 0) != 7) throw Error("another message");
  });
  EXPECT_EQ(ends, (std::vector<std::string>{"", "", "signal 9"}));
}

TEST_P(ProcessArrivals, OtherRanksEndEndsRun) {
  const auto ends = run_world(world(2), [](Communicator& comm) {
    comm.barrier({}).wait();
    if (comm.rank() == 1) kill(getpid(), SIGKILL);
    take_number(comm, 1);
  });
  EXPECT_CONTAINS(ends[0], "rank 1: ");
  EXPECT_CONTAINS(ends[0], "its process ended");
}

class ArrivalWorlds : public WorldTest {};
ZERO_INSTANTIATE_WORLDS(ArrivalWorlds);

// Each rank sends when rank 0 tells it to. The last rank is first. The messages are large.
TEST_P(ArrivalWorlds, TakeMessagesInArrivalOrder) {
  expect_world(world(), [](Communicator& comm) {
    const std::size_t size = 70001;
    std::vector<std::byte> large(size, static_cast<std::byte>(comm.rank()));
    for (int round = 0; round < 3; ++round) {
      if (comm.rank() != 0) {
        EXPECT_EQ(take_number(comm, 0), round);
        comm.send(large, 0, {}).wait();
        comm.drain();
        continue;
      }
      std::vector<std::vector<std::byte>> taken(static_cast<std::size_t>(comm.world()), large);
      std::vector<Work> works;
      for (int from = 1; from < comm.world(); ++from)
        works.push_back(comm.receive(taken[static_cast<std::size_t>(from)], from, {}));
      for (int from = comm.world() - 1; from > 0; --from) {
        send_number(comm, round, from);
        EXPECT_TRUE(comm.arrivals()->await([&] {
          return std::ranges::any_of(works, [](Work& work) { return !work.finished() && work.try_complete(); });
        }));
        Work& work = works[static_cast<std::size_t>(from - 1)];
        EXPECT_TRUE(work.try_complete()) << "no other message was sent";
        work.wait();
        EXPECT_EQ(taken[static_cast<std::size_t>(from)], std::vector<std::byte>(size, static_cast<std::byte>(from)));
      }
      comm.drain();
    }
  });
}

}  // namespace
}  // namespace zero
