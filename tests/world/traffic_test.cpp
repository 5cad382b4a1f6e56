// Traffic: the counted bytes between ranks equal the formulas of the papers.

#include <algorithm>

#include "zero/comm/collectives.h"

#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

class TrafficCount : public WorldTest {};
ZERO_INSTANTIATE_WORLDS(TrafficCount);

// The bytes that `body` adds: {sent, received}.
std::pair<std::int64_t, std::int64_t> added(Communicator& comm, const std::function<void()>& body) {
  const Traffic before = comm.traffic();
  body();
  comm.drain();
  const Traffic after = comm.traffic();
  return {after.sent_bytes - before.sent_bytes, after.received_bytes - before.received_bytes};
}

TEST_P(TrafficCount, FollowsTheClassicAlgorithms) {
  expect_world(world(), [](Communicator& comm) {
    using Pair = std::pair<std::int64_t, std::int64_t>;
    const std::int64_t others = comm.world() - 1, block = 6000;
    std::vector<std::byte> one(block), all(block * comm.world()), all_too(all.size());
    EXPECT_EQ(added(comm, [&] { comm.all_gather(one, all, {}).wait(); }), Pair(others * block, others * block));
    EXPECT_EQ(added(comm, [&] { comm.all_to_all(all, all_too, {}).wait(); }), Pair(others * block, others * block));
    EXPECT_EQ(added(comm, [&] { comm.reduce_scatter({.in = all, .out = one}, {}).wait(); }),
              Pair(others * block, others * block));
    EXPECT_EQ(added(comm, [&] { comm.broadcast(one, 0, {}).wait(); }),
              comm.rank() == 0 ? Pair(others * block, 0) : Pair(0, block));
    EXPECT_EQ(added(comm, [&] { comm.barrier({}).wait(); }), Pair(0, 0));
    std::vector<float> data(1500 * comm.world());
    EXPECT_EQ(added(comm, [&] { all_reduce(comm, data, {}); }), Pair(2 * others * block, 2 * others * block));
  });
}

TEST_P(TrafficCount, TheDefaultReductionCountsTheSame) {
  expect_world(world(), [](Communicator& comm) {
    std::vector<std::byte> all(1300000 * comm.world()), one(1300000);
    const auto [sent, received] =
        added(comm, [&] { comm.Communicator::reduce_scatter({.in = all, .out = one}, {}).wait(); });
    EXPECT_EQ(sent, 1300000 * (comm.world() - 1));
    EXPECT_EQ(received, sent);
  });
}

TEST_P(TrafficCount, BookkeepingIsCountedApart) {
  expect_world(world(), [](Communicator& comm) {
    const Traffic before = comm.traffic();
    EXPECT_EQ(added(comm, [&] { all_gather_value(comm, 1); }), (std::pair<std::int64_t, std::int64_t>(0, 0)));
    EXPECT_EQ(comm.traffic().control_sent_bytes - before.control_sent_bytes, 8 * (comm.world() - 1));
    EXPECT_EQ(comm.traffic().control_received_bytes - before.control_received_bytes, 8 * (comm.world() - 1));
  });
}

TEST_P(TrafficCount, LateRankWaitCountsAsTime) {
  expect_world(world(), [](Communicator& comm) {
    comm.barrier({}).wait();
    const bool late = comm.rank() == comm.world() - 1;
    const double before = comm.waited_seconds();
    // On a busy machine a peer may be later than the late rank. The ranks then meet again.
    bool counted = false;
    for (int meeting = 0; meeting < 1000 && !counted; ++meeting) {
      if (late) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      comm.barrier({}).wait();
      const auto all = all_gather_value(comm, late || comm.waited_seconds() > before ? 1 : 0);
      counted = std::ranges::count(all, 0) == 0;
    }
    EXPECT_TRUE(counted);
    if (comm.world() == 1) {
      EXPECT_EQ(comm.waited_seconds(), 0);
    }
  });
}

}  // namespace
}  // namespace zero
