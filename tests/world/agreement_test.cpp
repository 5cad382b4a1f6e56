// Ranks that disagree, come late, leave or throw: every rank gets a CommError that names the rank and its last action.

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"

#include "tests/support/expect_contains.h"
#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

class StepSync : public ::testing::TestWithParam<std::string> {
 protected:
  World world(int size, milliseconds timeout = milliseconds(20000)) const {
    return {.transport = GetParam(), .size = size, .timeout = timeout};
  }
};
INSTANTIATE_TEST_SUITE_P(Transports, StepSync, ::testing::ValuesIn(board_transports()),
                         [](const auto& info) { return info.param; });

// Both ranks get the names.
TEST_P(StepSync, OtherCollectiveNamesBothRanks) {
  const auto ends = run_world(world(2), [](Communicator& comm) {
    std::vector<std::byte> in(100), out(200);
    comm.barrier({}).wait();
    if (comm.rank() == 0) {
      comm.all_gather(in, out, {.unit = 3}).wait();
    } else {
      comm.barrier({.unit = 5}).wait();
    }
    comm.barrier({}).wait();
  });
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_CONTAINS(ends[0], "rank 0 does all_gather #2 (unit 3, 100 bytes)");
  EXPECT_CONTAINS(ends[0], "rank 1 does barrier #2 (unit 5)");
}

TEST_P(StepSync, OtherSizeOrUnitMismatches) {
  for (const bool other_unit : {false, true}) {
    const auto ends = run_world(world(3), [&](Communicator& comm) {
      const std::size_t bytes = comm.rank() == 2 && !other_unit ? 99 : 100;
      std::vector<std::byte> in(bytes), out(bytes * 3);
      comm.all_gather(in, out, {.unit = comm.rank() == 2 && other_unit ? 4 : 3}).wait();
    });
    for (const std::string& end : ends) EXPECT_CONTAINS(end, "rank 2 does all_gather #1");
    EXPECT_CONTAINS(ends[2], other_unit ? "unit 4" : "99 bytes");
  }
}

TEST_P(StepSync, AnotherRootIsAMismatch) {
  const auto ends = run_world(world(2), [](Communicator& comm) {
    std::vector<std::byte> data(10);
    comm.broadcast(data, comm.rank(), {}).wait();
    comm.barrier({}).wait();
  });
  EXPECT_CONTAINS(ends[0], "rank 1 does");
  EXPECT_CONTAINS(ends[1], "rank 0 does broadcast #1 (from rank 0, 10 bytes)");
}

TEST_P(StepSync, OtherMessageSizeMismatches) {
  const auto ends = run_world(world(2), [](Communicator& comm) {
    std::vector<std::byte> data(comm.rank() == 0 ? 10 : 20);
    if (comm.rank() == 0) {
      comm.send(data, 1, {}).wait();
    } else {
      comm.receive(data, 0, {}).wait();
    }
    comm.barrier({}).wait();
  });
  EXPECT_CONTAINS(ends[1], "send #1 (10 bytes)");
  EXPECT_CONTAINS(ends[0], "send #1 (20 bytes)");
}

// The error also says what the late rank did last.
TEST_P(StepSync, LateRankIsNamed) {
  const GivenUp given_up;
  const auto ends = run_world(world(3, kSoon), [&](Communicator& comm) {
    comm.barrier({.unit = 8}).wait();
    if (comm.rank() == 1) given_up.stay_away_until(2);
    given_up.note([&] { comm.barrier({.unit = 9}).wait(); });
  });
  for (const std::string& end : ends) {
    EXPECT_CONTAINS(end, "rank 1: barrier #2 (unit 9): it is absent after 1 s");
    EXPECT_CONTAINS(end, "it last began barrier #1 (unit 8)");
  }
}

TEST_P(StepSync, SeveralLateRanksAreAllNamed) {
  const GivenUp given_up;
  const auto ends = run_world(world(4, kSoon), [&](Communicator& comm) {
    if (comm.rank() % 2 == 1) given_up.stay_away_until(2);
    given_up.note([&] { comm.barrier({}).wait(); });
  });
  for (const std::string& end : ends)
    EXPECT_CONTAINS(end, "ranks 1, 3 are absent after 1 s; rank 1: it last began nothing");
}

TEST_P(StepSync, LeavingRankEndsOthersWait) {
  const auto ends = run_world(world(3), [](Communicator& comm) {
    comm.barrier({}).wait();
    if (comm.rank() == 2) throw std::runtime_error("a loss of NaN");
    comm.barrier({}).wait();
  });
  EXPECT_EQ(ends[2], "a loss of NaN");
  for (int rank = 0; rank < 2; ++rank) EXPECT_CONTAINS(ends[rank], "rank 2: barrier #2: it left the run");
}

// The other ranks end before the timeout.
TEST_P(StepSync, UnwindingRankEndsOthersAtOnce) {
  // Rank 0 has posted a gather that no rank has read yet, from memory that the error frees. The other ranks first wait
  // for another action of rank 0.
  const auto ends = run_world(world(3, kNever), [](Communicator& comm) {
    Allocation window = comm.allocate(50000);
    std::vector<std::byte> out(150000);
    Work gather = comm.all_gather(window.bytes(), out, {});
    if (comm.rank() == 0) throw std::runtime_error("a loss of NaN");
    comm.barrier({}).wait();
    gather.wait();
  });
  EXPECT_EQ(ends[0], "a loss of NaN");
  for (int rank = 1; rank < 3; ++rank) EXPECT_CONTAINS(ends[rank], "rank 0: barrier #2: it left the run");
}

TEST_P(StepSync, UnneededRankMayLeave) {
  expect_world(world(3), [](Communicator& comm) {
    std::vector<std::byte> in = pattern(100000, comm.rank()), out(300000);
    comm.all_gather(in, out, {}).wait();
    comm.drain();
    if (comm.rank() == 2) return;
    // A message between the two ranks that stay.
    if (comm.rank() == 0) comm.send(in, 1, {}).wait();
    if (comm.rank() == 1) comm.receive(in, 0, {}).wait();
    comm.drain();
    EXPECT_TRUE(holds_pattern(in, 0));
  });
}

TEST_P(StepSync, AnErrorSticks) {
  expect_world(world(2), [](Communicator& comm) {
    std::vector<std::byte> in(8), out(16);
    Work work = comm.rank() == 0 ? comm.barrier({}) : comm.all_gather(in, out, {});
    EXPECT_THROW(work.wait(), CommError);
    EXPECT_TRUE(work.finished());
    EXPECT_THROW(comm.barrier({}).wait(), CommError);
    EXPECT_THROW(all_gather_value(comm, 1), CommError);
  });
}

TEST_P(StepSync, UnfitSizesAreOurBug) {
  expect_world(world(2), [](Communicator& comm) {
    std::vector<std::byte> a(10), b(21);
    EXPECT_THROW(static_cast<void>(comm.all_gather(a, b, {})), InternalError);
    EXPECT_THROW(static_cast<void>(comm.all_to_all(b, b, {})), InternalError);
    EXPECT_THROW(static_cast<void>(comm.reduce_scatter({.in = b, .out = a}, {})), InternalError);
    EXPECT_THROW(static_cast<void>(comm.broadcast(a, 2, {})), InternalError);
    EXPECT_THROW(static_cast<void>(comm.send(a, comm.rank(), {})), InternalError);
  });
}

}  // namespace
}  // namespace zero
