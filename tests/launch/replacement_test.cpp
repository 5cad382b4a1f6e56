// Failed ranks that are restarted while the other ranks continue.
#include <chrono>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "app/launch/launch.h"
#include "tests/launch/launched.h"
#include "tests/support/expect_contains.h"
#include "tests/support/occurrences.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

constexpr const char* kAlone = "restarting only this rank";

// Ranks from 1 on may fail. Scripts run in a shared folder: `: > back` in one rank, and `until [ -e back ]` in another.
class Replacement : public ::testing::Test {
 protected:
  LaunchOptions options(int ranks, int max_restarts, const std::string& text) const {
    LaunchOptions options = script(ranks, fmt::format("cd {}; {}", folder_.path().string(), text));
    options.spared_from = 1;
    options.max_restarts = max_restarts;
    return options;
  }
  static std::string await(const std::string& file) {
    return fmt::format("until [ -e {} ]; do sleep 0.01; done; ", file);
  }

  const TemporaryFolder folder_;
};

// One line reports the restart.
TEST_F(Replacement, RestartsFailedRankOnly) {
  const Outcome outcome =
      run_launch(options(3, 2,
                         "if [ $RANK = 2 ] && [ -z \"$ZERO_REPLACEMENT\" ]; then printf 'last words'; kill -9 $$; fi; "
                         "if [ $RANK = 2 ]; then : > back; fi; " +
                             await("back") + "echo replacement ${ZERO_REPLACEMENT-0} of $ZERO_MAX_REPLACEMENTS"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(lines(outcome.output), (std::multiset<std::string>{"replacement 0 of 2", "[rank 1] replacement 0 of 2",
                                                               "[rank 2] last words", "[rank 2] replacement 1 of 2"}));
  EXPECT_CONTAINS(outcome.errors,
                  "rank 2 failed with signal 9 (SIGKILL): restarting only this rank (1 of 2, 1 left)\n");
  EXPECT_EQ(occurrences(kAlone, outcome.errors), 1) << outcome.errors;
}

TEST_F(Replacement, CountsAsOneOfTheRestarts) {
  const Outcome outcome =
      run_launch(options(2, 2,
                         "if [ $ZERO_GENERATION = 1 ]; then echo ${ZERO_MAX_REPLACEMENTS-none left}; exit; fi; "
                         "if [ $RANK = 1 ] && [ -z \"$ZERO_REPLACEMENT\" ]; then exit 7; fi; "
                         "if [ $RANK = 1 ]; then : > back; sleep 100; fi; " +
                             await("back") + "exit 5"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_CONTAINS(outcome.errors, "rank 1 failed with exit status 7: restarting only this rank (1 of 2, 1 left)");
  EXPECT_CONTAINS(outcome.errors, "starting all ranks again (2 of 2)");
  EXPECT_EQ(lines(outcome.output), (std::multiset<std::string>{"none left", "[rank 1] none left"}));
}

TEST_F(Replacement, RepeatedFailureRestartsAfterPause) {
  const Outcome outcome =
      run_launch(options(2, 2,
                         "if [ $RANK = 0 ]; then " + await("back") +
                             "exit; fi; "
                             "if [ \"$ZERO_REPLACEMENT\" = 2 ]; then : > back; exit; fi; kill -9 $$"));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_CONTAINS(outcome.errors, "restarting only this rank (1 of 2, 1 left)");
  EXPECT_CONTAINS(outcome.errors, "restarting only this rank in 1 s (2 of 2, 0 left)");
}

// The replacement ends with its peers, which ended before they met it.
TEST_F(Replacement, EndsWithItsPeers) {
  LaunchOptions late = options(2, 1,
                               "if [ $RANK = 0 ]; then " + await("back") +
                                   "exit; fi; if [ -z \"$ZERO_REPLACEMENT\" ]; then kill -9 $$; fi; echo pid $$; "
                                   ": > back; sleep 100");
  late.farewell = std::chrono::milliseconds(1);
  const Outcome outcome = run_launch(late);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(occurrences(kAlone, outcome.errors), 1) << outcome.errors;
}

// A rank is not replaced if it refuses its input or if others need it.
TEST_F(Replacement, RefusesBadInputAndNeededRanks) {
  const Outcome refused = run_launch(options(2, 1, "if [ $RANK = 1 ]; then exit 2; fi; sleep 100"));
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(occurrences(kAlone, refused.errors), 0) << refused.errors;
  const Outcome server = run_launch(options(2, 1, "if [ $RANK = 0 ]; then exit 7; fi; sleep 100"));
  EXPECT_EQ(server.status, 3);
  EXPECT_EQ(occurrences(kAlone, server.errors), 0) << server.errors;
  EXPECT_CONTAINS(server.errors, "starting all ranks again (1 of 1)");
}

TEST_F(Replacement, LauncherSignalEndsReplacement) {
  Launched launched(options(2, 1,
                            "if [ $RANK = 1 ] && [ -z \"$ZERO_REPLACEMENT\" ]; then kill -9 $$; fi; "
                            "if [ $RANK = 1 ]; then echo here; fi; sleep 100"));
  ASSERT_TRUE(launched.wait_for("here"));
  launched.send(SIGTERM);
  const Outcome outcome = launched.finish();
  EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.errors;
  EXPECT_EQ(occurrences(kAlone, outcome.errors), 1) << outcome.errors;
}

}  // namespace
}  // namespace zero
