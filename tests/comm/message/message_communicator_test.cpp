#include "zero/comm/message/message_communicator.h"

#include <functional>
#include <latch>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"
#include "zero/comm/group.h"

#include "tests/comm/fake_link.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

void expect_all(int world, const std::function<void(Communicator&)>& body) {
  FakeNetwork network;
  for (const std::string& end : run_over(network, world, milliseconds(10000), body)) EXPECT_EQ(end, "");
}

std::vector<std::byte> block(std::size_t bytes, int seed) {
  return std::vector<std::byte>(bytes, static_cast<std::byte>(seed));
}

TEST(MessageCommunicator, MovesEveryBlockToItsPlace) {
  for (const int world : {1, 2, 3, 5}) {
    expect_all(world, [](Communicator& comm) {
      EXPECT_EQ(comm.transport(), "fake");
      for (const std::size_t bytes : {0, 1, 1000}) {
        const auto in = block(bytes, comm.rank() + 1);
        std::vector<std::byte> gathered(bytes * comm.world());
        comm.all_gather(in, gathered, {}).wait();
        for (int r = 0; r < comm.world(); ++r) {
          const auto part = std::span(gathered).subspan(r * bytes, bytes);
          EXPECT_TRUE(std::ranges::equal(part, block(bytes, r + 1)));
        }
        std::vector<std::byte> transposed(gathered.size());
        std::vector<std::byte> mine;
        for (int to = 0; to < comm.world(); ++to) {
          const auto part = block(bytes, 10 * comm.rank() + to);
          mine.insert(mine.end(), part.begin(), part.end());
        }
        comm.all_to_all(mine, transposed, {}).wait();
        for (int from = 0; from < comm.world(); ++from) {
          EXPECT_TRUE(std::ranges::equal(std::span(transposed).subspan(from * bytes, bytes),
                                         block(bytes, 10 * from + comm.rank())));
        }
        auto data = block(bytes, comm.rank() + 50);
        comm.broadcast(data, comm.world() - 1, {}).wait();
        EXPECT_EQ(data, block(bytes, comm.world() + 49));
        comm.drain();
      }
    });
  }
}

TEST(MessageCommunicator, WorksAreWaitedInAnyOrder) {
  expect_all(3, [](Communicator& comm) {
    std::vector<std::vector<std::byte>> in, out;
    std::vector<Work> works;
    for (int i = 0; i < 10; ++i) {
      in.push_back(block(100 + i, 3 * i + comm.rank()));
      out.emplace_back(3 * (100 + i));
    }
    for (int i = 0; i < 10; ++i) works.push_back(comm.all_gather(in[i], out[i], {}));
    // Rank 1 waits in reverse order.
    for (int i = 0; i < 10; ++i) works[comm.rank() == 1 ? 9 - i : i].wait();
    for (int i = 0; i < 10; ++i) {
      for (int r = 0; r < 3; ++r) EXPECT_EQ(out[i][r * (100 + i)], static_cast<std::byte>(3 * i + r));
    }
    comm.drain();
  });
}

TEST(MessageCommunicator, ConcurrentMessagesHaveDifferentTags) {
  FakeNetwork network;
  run_over(network, 2, milliseconds(10000), [](Communicator& comm) {
    std::vector<Work> works;
    std::vector<std::byte> in(8), out(16), data(4);
    for (int i = 0; i < 20; ++i) works.push_back(comm.all_gather(in, out, {}));
    for (int i = 0; i < 20; ++i) works.push_back(comm.rank() == 0 ? comm.send(data, 1, {}) : comm.receive(data, 0, {}));
    for (Work& work : works) work.wait();
    comm.drain();
  });
  EXPECT_EQ(network.most_waiting(), 1u);
}

// The receive is posted when the collective begins. Over a slow network it would otherwise be posted after this rank's
// own message.
TEST(MessageCommunicator, CollectiveReceivesFromTheStart) {
  FakeNetwork network;
  std::vector<std::byte> in(8), out(16);
  MessageCommunicator comm(std::make_unique<FakeLink>(network, 0), "fake", 0, 2, milliseconds(1));
  const Work work = comm.all_gather(in, out, {});
  EXPECT_EQ(network.num_expected(), 2u) << "a header and its data";
}

TEST(MessageCommunicator, ReducesAsTheDefaultDoes) {
  expect_all(4, [](Communicator& comm) {
    std::vector<float> data(1001);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i * (comm.rank() + 1));
    all_reduce(comm, data, {});
    for (std::size_t i = 0; i < data.size(); ++i) EXPECT_EQ(data[i], static_cast<float>(i * 10));
    EXPECT_EQ(all_reduce_max(comm, comm.rank()), 3);
  });
}

TEST(MessageCommunicator, CountsPayloadAndNotHeaders) {
  expect_all(3, [](Communicator& comm) {
    std::vector<std::byte> in(100), out(300);
    comm.all_gather(in, out, {}).wait();
    comm.broadcast(in, 0, {.control = true}).wait();
    comm.barrier({}).wait();
    EXPECT_EQ(comm.traffic().sent_bytes, 200);
    EXPECT_EQ(comm.traffic().received_bytes, 200);
    EXPECT_EQ(comm.traffic().control_sent_bytes, comm.rank() == 0 ? 200 : 0);
    EXPECT_EQ(comm.traffic().control_received_bytes, comm.rank() == 0 ? 0 : 100);
    comm.drain();
  });
}

TEST(MessageCommunicator, BothSidesReportTheSameMismatch) {
  FakeNetwork network;
  const auto ends = run_over(network, 2, milliseconds(10000), [](Communicator& comm) {
    std::vector<std::byte> in(10), out(20);
    if (comm.rank() == 0) {
      comm.all_gather(in, out, {.unit = 6}).wait();
    } else {
      comm.barrier({}).wait();
    }
  });
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_EQ(ends[0].substr(0, ends[0].find('\n')),
            "collective #1: ranks disagree: rank 0 does all_gather #1 (unit 6, 10 bytes), rank 1 does barrier #1");
}

TEST(MessageCommunicator, MismatchLeavesTheOutputUntouched) {
  FakeNetwork network;
  run_over(network, 2, milliseconds(10000), [](Communicator& comm) {
    const auto in = block(comm.rank() == 0 ? 10 : 500, 7);
    std::vector<std::byte> out(2 * in.size());
    Work work = comm.all_gather(in, out, {});
    EXPECT_THROW(work.wait(), CommError);
    const int other = 1 - comm.rank();
    EXPECT_EQ(out[other * in.size()], std::byte{0});
  });
}

TEST(MessageCommunicator, ALateRankIsNamed) {
  FakeNetwork network;
  std::latch begun(2), given_up(2);  // without a limit: a hang ends with the suite
  const auto ends = run_over(network, 3, milliseconds(100), [&](Communicator& comm) {
    if (comm.rank() == 1) given_up.wait();
    Work barrier = comm.barrier({.unit = 2});
    if (comm.rank() != 1) begun.arrive_and_wait();  // so neither is late for the other
    try {
      barrier.wait();
    } catch (const CommError&) {
      if (comm.rank() != 1) given_up.count_down();
      throw;
    }
  });
  EXPECT_CONTAINS(ends[0], "barrier #1 (unit 2): it is absent after 100 ms");
  EXPECT_TRUE(ends[0].starts_with("rank 1: ")) << ends[0];
}

TEST(MessageCommunicator, LostRankHasTheLibrarysReason) {
  FakeNetwork network;
  const auto ends = run_over(network, 2, milliseconds(10000), [&](Communicator& comm) {
    if (comm.rank() == 1) throw std::runtime_error("died");
    comm.barrier({}).wait();
  });
  EXPECT_EQ(ends[0], "rank 1: barrier #1: its process ended or left while rank 0 waits for it (a cable was cut)");
}

TEST(MessageCommunicator, ReasonReachesRanksThatMissedIt) {
  // Rank 2 dies while rank 1 waits for its message, and rank 0 waits only for rank 1. Both wait by then, because a
  // failing rank tells the others only for half a second.
  FakeNetwork network;
  std::latch wait(2);
  const auto ends = run_over(network, 3, milliseconds(10000), [&](Communicator& comm) {
    std::vector<std::byte> data(10);
    if (comm.rank() == 2) {
      wait.wait();
      throw std::runtime_error("died");
    }
    wait.count_down();
    if (comm.rank() == 1) comm.receive(data, 2, {}).wait();
    if (comm.rank() == 0) comm.barrier({}).wait();
  });
  EXPECT_CONTAINS(ends[0], "rank 2: send #1 (10 bytes): its process ended or left while rank 1 waits for it");
  EXPECT_EQ(ends[0], ends[1]);
}

TEST(MessageCommunicator, AnErrorSticks) {
  FakeNetwork network;
  run_over(network, 2, milliseconds(10000), [&](Communicator& comm) {
    if (comm.rank() == 1) throw std::runtime_error("died");
    EXPECT_THROW(comm.barrier({}).wait(), CommError);
    EXPECT_THROW(comm.drain(), CommError);
    EXPECT_THROW(static_cast<void>(comm.barrier({})), CommError);
  });
}

TEST(MessageCommunicator, GroupSendsUnderItsTags) {
  FakeNetwork network;
  const auto ends = run_over(network, 3, milliseconds(10000), [](Communicator& comm) {
    const auto all = open_group(comm, {0, 1, 2}, "all");
    const auto ends = comm.rank() == 1 ? open_group(comm, {}, "") : open_group(comm, {0, 2}, "ends");
    std::vector<Work> works;
    // Each has its own output. Rank 2's block in the group of two has the offset of rank 1's block in a group of three.
    std::vector<std::byte> in(8), out(24), out_of_all(24), out_of_ends(16);
    for (int i = 0; i < 10; ++i) {
      works.push_back(comm.all_gather(in, out, {}));
      works.push_back(all->all_gather(in, out_of_all, {}));
      if (ends) works.push_back(ends->all_gather(in, out_of_ends, {}));
    }
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
    comm.drain();
    all->drain();
    if (ends) ends->drain();
  });
  EXPECT_EQ(ends, std::vector<std::string>(3));
  EXPECT_EQ(network.most_waiting(), 1U) << "one key, one message";
}

// Rank 3 leaves. Rank 0 waits for rank 1, rank 1 for rank 2, and rank 2 for rank 3, each in its own pair. The reason
// also reaches groups without rank 3.
TEST(MessageCommunicator, ReasonReachesOtherGroups) {
  FakeNetwork network;
  std::latch wait(3);
  const auto ends = run_over(network, 4, milliseconds(10000), [&](Communicator& comm) {
    std::vector<std::unique_ptr<Communicator>> pairs;
    for (int first = 0; first < 3; ++first) {
      const bool mine = comm.rank() == first || comm.rank() == first + 1;
      pairs.push_back(open_group(comm, mine ? std::vector{first, first + 1} : std::vector<int>{}, "pair"));
    }
    if (comm.rank() == 3) {
      wait.wait();
      throw std::runtime_error("died");
    }
    wait.count_down();
    pairs[comm.rank()]->barrier({}).wait();
  });
  for (const int rank : {0, 1, 2})
    EXPECT_EQ(ends[rank], "rank 3: its part of the run: it left with an error of its own");
}

TEST(MessageCommunicator, ReleasedMemoryIsNotSent) {
  expect_all(2, [](Communicator& comm) {
    std::vector<std::byte> out(20000);
    for (int round = 0; round < 20; ++round) {
      Allocation memory = comm.allocate(10000);
      std::ranges::fill(memory.bytes(), static_cast<std::byte>(round + 1));
      Work work = comm.all_gather(memory.bytes(), out, {});
      work.wait();
      memory = {};
      EXPECT_EQ(out[0], static_cast<std::byte>(round + 1));
      EXPECT_EQ(out[19999], static_cast<std::byte>(round + 1));
    }
  });
}

}  // namespace
}  // namespace zero
