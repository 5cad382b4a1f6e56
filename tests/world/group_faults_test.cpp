// Ranks of a group that disagree, come late, leave or die: the error names the group and the rank's number in the
// world.

#include <signal.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/comm/collectives.h"
#include "zero/comm/group.h"

#include "tests/support/expect_contains.h"
#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

// Opens the groups {0, 2} and {1, 3} of four ranks.
std::unique_ptr<Communicator> open_parity(Communicator& world) {
  const bool odd = world.rank() % 2 == 1;
  return open_group(world, odd ? std::vector{1, 3} : std::vector{0, 2}, odd ? "odd" : "even");
}

class GroupFaults : public ::testing::TestWithParam<std::string> {
 protected:
  World world(milliseconds timeout = milliseconds(20000)) const {
    return {.transport = GetParam(), .size = 4, .timeout = timeout};
  }
  // Gloo has no shared memory that shows a rank's last action, or that it left without an error.
  bool by_messages() const { return GetParam() == "gloo"; }
};
INSTANTIATE_TEST_SUITE_P(Transports, GroupFaults, ::testing::ValuesIn(transports()),
                         [](const auto& info) { return info.param; });

// Every rank gets the error.
TEST_P(GroupFaults, MismatchNamesWorldRanksAndGroup) {
  const auto ends = run_world(world(), [](Communicator& world) {
    const auto group = open_parity(world);
    std::vector<std::byte> in(100), out(200);
    if (world.rank() == 1) group->all_gather(in, out, {.unit = 3}).wait();
    if (world.rank() == 3) group->barrier({.unit = 5}).wait();
    world.barrier({}).wait();
  });
  for (const std::string& end : ends) {
    EXPECT_CONTAINS(end,
                    "collective #1 of group odd (ranks 1, 3): ranks disagree: rank 1 does all_gather #1 (unit 3, 100 "
                    "bytes), rank 3 does barrier #1 (unit 5)");
  }
}

// The error names the root of a broadcast by its rank in the world.
TEST_P(GroupFaults, OtherRootIsNamedInWorld) {
  const auto ends = run_world(world(), [](Communicator& world) {
    const auto group = open_parity(world);
    std::vector<std::byte> data(10);
    if (world.rank() % 2 == 1) {
      group->broadcast(data, group->rank(), {}).wait();
      group->barrier({}).wait();
    }
    world.barrier({}).wait();
  });
  EXPECT_CONTAINS(ends[3], "rank 1 does broadcast #1 (from rank 1, 10 bytes), rank 3 does broadcast #1 (from rank 3");
}

TEST_P(GroupFaults, LateRankIsNamedInGroup) {
  const GivenUp given_up;
  const auto ends = run_world(world(kSoon), [&](Communicator& world) {
    const auto group = open_parity(world);
    group->barrier({.unit = 8}).wait();
    if (world.rank() == 3) given_up.stay_away_until(1);
    if (world.rank() % 2 == 1) given_up.note([&] { group->barrier({.unit = 9}).wait(); });
  });
  EXPECT_CONTAINS(ends[1], "rank 3: barrier #2 (unit 9) of group odd (ranks 1, 3): it is absent after 1");
  if (by_messages()) return;
  EXPECT_CONTAINS(ends[1], "it last began barrier #1 (unit 8) of group odd (ranks 1, 3)");
}

// Ranks 0 and 2 also miss rank 1, which is late because of rank 3. Their errors name rank 3.
TEST_P(GroupFaults, PeersWaitersLearnLateRank) {
  if (by_messages()) GTEST_SKIP() << "messages do not show which rank a rank waits for";
  const GivenUp given_up;
  const auto ends = run_world(world(kSoon), [&](Communicator& world) {
    const auto group = open_parity(world);
    group->barrier({.unit = 8}).wait();
    if (world.rank() == 3) given_up.stay_away_until(3);
    given_up.note([&] {
      group->barrier({.unit = 9}).wait();
      world.barrier({}).wait();
    });
  });
  for (const std::string& end : ends) {
    EXPECT_TRUE(end.starts_with("rank 3: barrier #")) << end;
    EXPECT_CONTAINS(end, "it last began barrier #1 (unit 8) of group odd (ranks 1, 3)");
  }
}

// A rank waits in its group and a peer in the world, each for the other. Their counts do not differ, so only the
// timeout ends the wait.
TEST_P(GroupFaults, GroupAgainstWorldCallTimesOut) {
  if (by_messages()) GTEST_SKIP() << "messages do not show a rank's last action";
  const auto ends = run_world(world(kSoon), [](Communicator& world) {
    const auto group = open_parity(world);
    if (world.rank() == 3) {
      group->barrier({.unit = 1}).wait();
    } else {
      world.barrier({.unit = 2}).wait();
    }
  });
  for (const std::string& end : ends) EXPECT_CONTAINS(end, "it is absent after 1 s; it last began barrier #");
}

// Waits in the rank's group and in the world end.
TEST_P(GroupFaults, ThrowingRankEndsBothWaits) {
  const auto ends = run_world(world(), [](Communicator& world) {
    const auto group = open_parity(world);
    group->barrier({}).wait();
    if (world.rank() == 3) throw std::runtime_error("a loss of NaN");
    if (world.rank() == 1) group->barrier({}).wait();
    world.barrier({}).wait();
  });
  EXPECT_EQ(ends[3], "a loss of NaN");
  for (const int rank : {0, 1, 2}) {
    EXPECT_TRUE(ends[rank].starts_with(by_messages() ? "rank 3: its part of the run" : "rank 3: barrier #"))
        << ends[rank];
    EXPECT_CONTAINS(ends[rank], "left");
  }
}

// The error also applies to the world and to all other groups.
TEST_P(GroupFaults, GroupErrorSticksToAll) {
  expect_world(world(), [](Communicator& world) {
    const auto group = open_parity(world);
    const auto pair = open_group(world, world.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3}, "pair");
    std::vector<std::byte> in(8), out(16);
    // The even ranks fail after the odd ranks have opened their groups.
    if (world.rank() % 2 == 1) world.send(in, world.rank() - 1, {}).wait();
    if (world.rank() % 2 == 0) world.receive(in, world.rank() + 1, {}).wait();
    if (world.rank() % 2 == 0) {
      Work work = world.rank() == 0 ? group->barrier({}) : group->all_gather(in, out, {});
      EXPECT_THROW(work.wait(), CommError);
    } else {
      EXPECT_THROW(pair->barrier({}).wait(), CommError) << "the other rank of the pair failed in another group";
    }
    EXPECT_THROW(group->barrier({}).wait(), CommError);
    EXPECT_THROW(pair->barrier({}).wait(), CommError);
    EXPECT_THROW(world.barrier({}).wait(), CommError);
  });
}

TEST_P(GroupFaults, DifferentGroupsReportAlike) {
  const auto ends = run_world(world(), [](Communicator& world) {
    // Rank 2 opens groups of neighbours.
    const bool other = world.rank() == 2;
    open_group(world, other ? std::vector{2, 3} : (world.rank() == 0 ? std::vector{0, 2} : std::vector{1, 3}), "half");
  });
  for (const std::string& end : ends)
    EXPECT_CONTAINS(end, "opening a group: ranks disagree: rank 0 opens '0,2 half', rank 2 opens '2,3 half'");
}

// One rank opens a group with another name, or opens no group.
TEST_P(GroupFaults, GroupNameMismatchIsReported) {
  for (const bool none : {false, true}) {
    const auto ends = run_world(world(), [&](Communicator& world) {
      const bool other = world.rank() == 3;
      open_group(world, other && none ? std::vector<int>{} : std::vector{0, 1, 2, 3}, other ? "b" : "a");
    });
    for (const std::string& end : ends)
      EXPECT_CONTAINS(end, none ? "rank 0 opens '0,1,2,3 a', rank 3 opens none" : "rank 3 opens '0,1,2,3 b'");
  }
}

class GroupsOfProcesses : public GroupFaults {};
INSTANTIATE_TEST_SUITE_P(Transports, GroupsOfProcesses, ::testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const std::string& name : transports())
                             if (name == "shared_memory" || name == "gloo") names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(GroupsOfProcesses);

// Errors come at once. Rank 1 waits for the dead rank, and rank 2 waits in the world. Rank 0 waits for rank 2, in a
// group without the dead rank.
TEST_P(GroupsOfProcesses, EveryGroupNamesKilledRank) {
  const auto ends = run_world(world(kNever), [](Communicator& world) {
    const auto group = open_parity(world);
    Allocation window = world.allocate(100000);
    std::vector<std::byte> out(200000);
    for (int round = 0; round < 20; ++round) {
      group->all_gather(window.bytes(), out, {.unit = 1}).wait();
      group->drain();
    }
    if (world.rank() == 3) kill(getpid(), SIGKILL);
    (world.rank() == 2 ? world : *group).barrier({}).wait();
  });
  EXPECT_EQ(ends[3], "signal 9");
  for (const int rank : {0, 1, 2}) {
    EXPECT_TRUE(ends[rank].starts_with("rank 3: ")) << ends[rank];
    EXPECT_CONTAINS(ends[rank], "its process ended");
  }
  EXPECT_CONTAINS(ends[1], "of group ");
}

}  // namespace
}  // namespace zero
