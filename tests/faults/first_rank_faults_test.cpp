// A user's own program under `zero launch`: the launcher names the rank that ended first, however it ended and
// whichever end was seen first.
#include <tuple>

#include <fmt/format.h>

#include "tests/faults/fault_test.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

struct WayToEnd {
  const char* how;
  const char* report;
};

using Launched = std::tuple<const char*, WayToEnd, int>;  // transport, way, number of ranks

std::string name_of_launch(const testing::TestParamInfo<Launched>& of) {
  const auto& [transport, way, ranks] = of.param;
  return fmt::format("{}_{}_{}", transport, way.how, ranks);
}

class FirstRank : public FaultTest, public testing::WithParamInterface<Launched> {};
INSTANTIATE_TEST_SUITE_P(
    Launches, FirstRank,
    testing::Combine(testing::Values("shared_memory", "gloo"),
                     testing::Values(WayToEnd{"throw", "exit status 1"}, WayToEnd{"uncaught", "signal 6 (SIGABRT)"},
                                     WayToEnd{"code", "exit status 7"}, WayToEnd{"kill", "signal 9 (SIGKILL)"},
                                     WayToEnd{"crash", "signal 11 (SIGSEGV)"}),
                     testing::Values(2, 4)),
    name_of_launch);

TEST_P(FirstRank, IsNamedInEveryLaunch) {
  const auto& [transport, way, ranks] = GetParam();
  if (std::string(transport) == "gloo" && ZERO_HAS_GLOO == 0) GTEST_SKIP() << "no plug-in for gloo in this build";
  if (built::kSanitized && std::string(transport) == "gloo")
    GTEST_SKIP() << "sanitizers do not work with gloo's plug-in";
  if (built::kSanitized && std::string(way.how) == "crash") GTEST_SKIP() << "a sanitizer ends a crashed program itself";
  const int num_launches = num_trials("ZERO_FIRST_RANK_LAUNCHES", 1, 20);
  for (int launch = 0; launch < num_launches && !HasFailure(); ++launch) {
    WatchedCommand command({built::kCommand, "launch", "--nproc-per-node", std::to_string(ranks), "--",
                            built::kFaultLeaver, transport, way.how});
    EXPECT_EQ(command.finish(), 3) << command.text();
    EXPECT_SAYS(command, fmt::format("zero launch: rank 1 of {} failed with {} after", ranks, way.report));
  }
}

// The rank fails twice in a row, with the same status as the other ranks. Its place is given up.
class FirstRankPlaces : public FaultTest {};

TEST_F(FirstRankPlaces, GivesUpRankThatLeavesTwice) {
  WatchedCommand command({built::kCommand, "launch", "--nproc-per-node", "3", "--max-restarts", "3", "--min-ranks", "2",
                          "--", built::kFaultLeaver, "shared_memory", "throw"});
  EXPECT_TRUE(command.wait_for("continuing with 2 of 3 ranks (2 of 3): rank 1 failed twice in a row"))
      << command.text();
  command.send(SIGKILL);
}

}  // namespace
}  // namespace zero
