// Groups of ranks over every transport: every collective is compared with a plain reference, with and without works of
// other groups.
// other groups.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "zero/comm/collectives.h"
#include "zero/comm/group.h"

#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

class Groups : public WorldTest {};
ZERO_INSTANTIATE_WORLDS(Groups);

using Ranks = std::vector<int>;

// A group of this rank, with its expected ranks.
struct Opened {
  std::unique_ptr<Communicator> comm;
  Ranks ranks;  // ranks of the world
};

Opened open(Communicator& world, const std::string& name, const std::function<bool(int)>& with_me) {
  Opened group;
  for (int rank = 0; rank < world.world(); ++rank)
    if (with_me(rank)) group.ranks.push_back(rank);
  group.comm = open_group(world, group.ranks, name);
  return group;
}

// Pairs of neighbours: each pair is a copy of the model. In an odd world the last rank is a pair by itself.
Opened open_row(Communicator& world) {
  return open(world, "row", [&](int rank) { return rank / 2 == world.rank() / 2; });
}
// The ranks of one parity: they hold the same shard of all copies.
Opened open_column(Communicator& world) {
  return open(world, "column", [&](int rank) { return rank % 2 == world.rank() % 2; });
}
// All ranks except rank 0. Null on rank 0. Empty in a world of one rank.
Opened open_workers(Communicator& world) {
  return open(world, "workers", [&](int rank) { return rank > 0 && world.rank() > 0; });
}

std::uint32_t seed_of(int rank, int unit) {
  return static_cast<std::uint32_t>(1000 * unit + rank);
}

void expect_gathered(const Opened& group, std::span<const std::byte> out, int unit) {
  const std::size_t bytes = out.size() / group.ranks.size();
  for (std::size_t i = 0; i < group.ranks.size(); ++i)
    EXPECT_TRUE(holds_pattern(out.subspan(i * bytes, bytes), seed_of(group.ranks[i], unit)));
}

// Tests every movement of `group`. Inputs depend on the rank in the world.
void expect_movements(Communicator& world, const Opened& group, std::size_t bytes, int unit) {
  Communicator& comm = *group.comm;
  const int me = world.rank();
  const CommTag tag{.unit = unit};
  ASSERT_EQ(comm.world(), std::ssize(group.ranks));
  ASSERT_EQ(group.ranks[comm.rank()], me);
  EXPECT_EQ(comm.transport(), world.transport());
  EXPECT_EQ(comm.timeout(), world.timeout());

  const std::vector<std::byte> in = pattern(bytes, seed_of(me, unit));
  std::vector<std::byte> out(bytes * group.ranks.size());
  comm.all_gather(in, out, tag).wait();
  expect_gathered(group, out, unit);

  // Block j of rank r is for the j-th rank of the group, and its values depend on both.
  std::vector<std::byte> sent, received(out.size());
  for (const int to : group.ranks) {
    const auto block = pattern(bytes, seed_of(100 * me + to, unit));
    sent.insert(sent.end(), block.begin(), block.end());
  }
  comm.all_to_all(sent, received, tag).wait();
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    EXPECT_TRUE(holds_pattern(std::span(received).subspan(i * bytes, bytes), seed_of(100 * group.ranks[i] + me, unit)));
  }
  comm.drain();
  for (int root = 0; root < comm.world(); ++root) {
    std::vector<std::byte> data = pattern(bytes, seed_of(me, unit));
    comm.broadcast(data, root, tag).wait();
    EXPECT_TRUE(holds_pattern(data, seed_of(group.ranks[root], unit)));
    comm.drain();
  }
  // Messages in a ring.
  if (comm.world() > 1) {
    const int next = (comm.rank() + 1) % comm.world(), before = (comm.rank() + comm.world() - 1) % comm.world();
    std::vector<std::byte> message(bytes);
    Work sending = comm.send(in, next, tag);
    comm.receive(message, before, tag).wait();
    sending.wait();
    EXPECT_TRUE(holds_pattern(message, seed_of(group.ranks[before], unit)));
    comm.drain();
  }
  comm.barrier(tag).wait();
}

// Expects the sum in the order of the world's ranks, to the bit, and its statistics.
void expect_sums(Communicator& world, const Opened& group, std::size_t numel) {
  Communicator& comm = *group.comm;
  const auto mine = pattern_values(numel * group.ranks.size(), DType::kFloat32, world.rank());
  std::vector<float> out(numel), expected(numel);
  ReduceStats stats;
  comm.reduce_scatter({.in = mine, .out = std::as_writable_bytes(std::span(out)), .stats = &stats}, {}).wait();
  comm.drain();
  double squares = 0;
  for (std::size_t i = 0; i < numel; ++i) {
    const std::size_t at = comm.rank() * numel + i;
    for (const int rank : group.ranks)
      expected[i] = rank == group.ranks.front() ? pattern_value(rank, at) : expected[i] + pattern_value(rank, at);
    squares += static_cast<double>(expected[i]) * expected[i];
  }
  EXPECT_TRUE(numel == 0 || std::memcmp(out.data(), expected.data(), numel * 4) == 0);
  EXPECT_NEAR(stats.sum_squares.value(), squares, 1e-9 * squares);
  EXPECT_EQ(stats.num_non_finite, 0);
}

TEST_P(Groups, EveryMovementOfEveryGroupArrives) {
  expect_world(world(), [](Communicator& world) {
    const Opened row = open_row(world), column = open_column(world), workers = open_workers(world);
    EXPECT_EQ(workers.comm == nullptr, world.rank() == 0);
    int unit = 0;
    for (const std::size_t bytes : {0, 1, 1003, 4097, 70001}) {
      expect_movements(world, row, bytes, ++unit);
      expect_movements(world, column, bytes, ++unit);
      ++unit;
      if (workers.comm) expect_movements(world, workers, bytes, unit);
    }
    all_gather_value(world, 1);
  });
}

// Sums are equal to the bit.
TEST_P(Groups, SumsFollowWorldRankOrder) {
  expect_world(world(), [](Communicator& world) {
    const Opened row = open_row(world), column = open_column(world), workers = open_workers(world);
    for (const std::size_t numel : {0, 1, 4097, 150001}) {
      expect_sums(world, row, numel);
      expect_sums(world, column, numel);
      if (workers.comm) expect_sums(world, workers, numel);
    }
    std::vector<float> all(5003, 1.0F);
    all_reduce(*column.comm, all, {});
    EXPECT_EQ(all, std::vector<float>(5003, static_cast<float>(column.ranks.size())));
  });
}

// The order of a training step with copies, in overlapping groups. A gather begins in the row, and the sum of another
// unit continues in the column. A collective of the world runs in between. Works are awaited in another order than they
// began.
TEST_P(Groups, WorldAndGroupWorksInterleave) {
  expect_world(world(), [](Communicator& world) {
    const Opened row = open_row(world), column = open_column(world);
    const std::size_t bytes = 9000;
    for (int round = 0; round < 20; ++round) {
      const auto in = pattern(bytes, seed_of(world.rank(), round));
      std::vector<std::byte> in_row(bytes * row.ranks.size()), in_column(bytes * column.ranks.size()),
          in_world(bytes * world.world());
      Work first = row.comm->all_gather(in, in_row, {.unit = round});
      Work second = column.comm->all_gather(in, in_column, {.unit = round});
      Work third = world.all_gather(in, in_world, {.unit = round});
      Work fourth = row.comm->barrier({.unit = round});
      if (world.rank() % 2 == 0) {
        fourth.wait(), third.wait(), second.wait(), first.wait();
      } else {
        second.wait(), first.wait(), third.wait(), fourth.wait();
      }
      expect_gathered(row, in_row, round);
      expect_gathered(column, in_column, round);
      for (int r = 0; r < world.world(); ++r)
        EXPECT_TRUE(holds_pattern(std::span(in_world).subspan(r * bytes, bytes), seed_of(r, round)));
      row.comm->drain();
      column.comm->drain();
      world.drain();
    }
  });
}

// The ranks of one group may be many collectives ahead of another group's.
TEST_P(Groups, DisjointGroupsDoNotWait) {
  expect_world(world(), [](Communicator& world) {
    const Opened row = open_row(world);
    for (int round = 0; round < 100 * (world.rank() / 2); ++round) {
      std::vector<std::int64_t> all = all_gather_value(*row.comm, 10 * round + world.rank());
      for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], 10 * round + row.ranks[i]);
    }
    all_gather_value(world, 1);
  });
}

TEST_P(Groups, AGroupHasGroups) {
  expect_world(world(), [](Communicator& world) {
    const Opened workers = open_workers(world);
    if (workers.comm) {
      Ranks same;  // numbers within the group of workers
      Opened inner;
      for (int place = 0; place < workers.comm->world(); ++place) {
        if (place % 2 != workers.comm->rank() % 2) continue;
        same.push_back(place);
        inner.ranks.push_back(workers.ranks[place]);
      }
      inner.comm = open_group(*workers.comm, same, "inner");
      expect_movements(world, inner, 5000, 3);
      expect_sums(world, inner, 4097);
    }
    all_gather_value(world, 1);
  });
}

TEST_P(Groups, ManyOpenInTurn) {
  expect_world(world(), [](Communicator& world) {
    for (int round = 0; round < 40; ++round) {
      const Opened group = round % 2 == 0 ? open_row(world) : open_column(world);
      expect_movements(world, group, 5000, round);
    }
    all_gather_value(world, 1);
  });
}

// All groups are destroyed with works under way. If a rank waited for a peer's read, it would wait until the timeout,
// and the run would fail. Over messages, a cancelled receive closes the link, both in groups and in the world.
TEST_P(Groups, LeavingWithWorksDelaysNobody) {
  if (const auto boards = board_transports(); std::ranges::find(boards, world().transport) == boards.end())
    GTEST_SKIP() << "ranks of this transport send messages";
  expect_world(world(), [](Communicator& world) {
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{50000}}) {
      Allocation window = world.allocate(bytes);
      std::vector<std::byte> out(bytes * static_cast<std::size_t>(world.world()));
      {
        const Opened row = open_row(world);
        const Work begun = row.comm->all_gather(window.bytes(), std::span(out).first(bytes * row.ranks.size()), {});
      }
      all_gather_value(world, 1);
      world.drain();
    }
  });
}

// Peers read shared memory in place, both for a group and for the world. Its release waits for both.
TEST_P(Groups, CommunicatorsShareMemory) {
  expect_world(world(), [](Communicator& world) {
    const Opened row = open_row(world), column = open_column(world);
    for (Communicator* from : {&world, row.comm.get(), column.comm.get()}) {
      const std::size_t bytes = 50000;
      std::vector<std::byte> out(bytes * world.world()), late(bytes * column.ranks.size());
      Allocation window = from->allocate(bytes);
      const auto mine = pattern(bytes, seed_of(world.rank(), 7));
      std::ranges::copy(mine, window.data());
      const std::span<std::byte> part = std::span(out).first(bytes * row.ranks.size());
      row.comm->all_gather(window.bytes(), part, {}).wait();
      expect_gathered(row, part, 7);
      world.all_gather(window.bytes(), out, {}).wait();
      column.comm->all_gather(window.bytes(), late, {}).wait();
      window = {};  // without a drain
      expect_gathered(column, late, 7);
    }
  });
}

TEST_P(Groups, TrafficIsGroupsOnly) {
  expect_world(world(), [](Communicator& world) {
    const Opened row = open_row(world), column = open_column(world);
    const Traffic before = world.traffic();
    std::vector<std::byte> block(6000), of_row(6000 * row.ranks.size()), of_column(6000 * column.ranks.size());
    row.comm->all_gather(block, of_row, {}).wait();
    column.comm->reduce_scatter({.in = of_column, .out = block}, {}).wait();
    row.comm->drain();
    column.comm->drain();
    all_gather_value(*row.comm, 1);
    const std::int64_t in_row = std::ssize(row.ranks) - 1, in_column = std::ssize(column.ranks) - 1;
    EXPECT_EQ(row.comm->traffic().sent_bytes, 6000 * in_row);
    EXPECT_EQ(row.comm->traffic().received_bytes, 6000 * in_row);
    EXPECT_EQ(row.comm->traffic().control_sent_bytes, 8 * in_row);
    EXPECT_EQ(column.comm->traffic().sent_bytes, 6000 * in_column);
    EXPECT_EQ(column.comm->traffic().control_sent_bytes, 0);
    EXPECT_EQ(world.traffic().sent_bytes, before.sent_bytes);
    EXPECT_EQ(world.traffic().control_sent_bytes, before.control_sent_bytes);
  });
}

}  // namespace
}  // namespace zero
