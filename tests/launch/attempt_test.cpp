#include "app/launch/attempt.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/launch/launched.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/this_build.h"

namespace zero {
namespace {

class AttemptTest : public testing::Test {
 protected:
  AttemptTest() { getrlimit(RLIMIT_NOFILE, &descriptors_); }

  // Ranks print into a file. On a terminal, rank 0 would use the terminal directly.
  const Attempt& run(const LaunchOptions& options) {
    options_ = options;
    attempt_.emplace(options_, Attempt::Launcher{inbox_, guard_, memory_, descriptors_});
    testing::internal::CaptureStdout();
    attempt_->run({.run_id = "test", .master_port = 1234});
    attempt_->show();
    printed_ = testing::internal::GetCapturedStdout();
    return *attempt_;
  }

  const RankEnd& end_of(int rank) const {
    const auto& ends = attempt_->ends();
    return *std::ranges::find(ends, rank, &RankEnd::rank);
  }

  SignalInbox inbox_;
  OrphanGuard guard_;
  MemoryServer memory_;
  rlimit descriptors_{};
  LaunchOptions options_;
  std::optional<Attempt> attempt_;
  std::string printed_;
};

TEST_F(AttemptTest, EveryRankHasAnEnd) {
  const Attempt& attempt = run(script(3, "echo $RANK"));
  EXPECT_TRUE(attempt.all_ended_well());
  EXPECT_EQ(attempt.stop_signal(), 0);
  EXPECT_FALSE(attempt.not_started());
  ASSERT_EQ(attempt.ends().size(), 3u);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(end_of(rank).last_lines, std::vector<std::string>{std::to_string(rank)});
}

TEST_F(AttemptTest, FailureEndsOthersWithoutBlame) {
  const TemporaryFolder folder;
  const Attempt& attempt =
      run(script(3, fmt::format("cd {}; echo this is $RANK; : > $RANK; [ $RANK = 1 ] || sleep 100; "
                                "until [ -e 0 ] && [ -e 2 ]; do sleep 0.01; done; exit 7",
                                folder.path().string())));
  EXPECT_FALSE(attempt.all_ended_well());
  ASSERT_EQ(attempt.ends().size(), 3u);
  EXPECT_EQ(attempt.ends().front().rank, 1);
  EXPECT_EQ(attempt.ends().front().end.exit_code, 7);
  EXPECT_FALSE(attempt.ends().front().ended_by_us);
  EXPECT_EQ(find_culprit(attempt.ends())->rank, 1);
  for (const int rank : {0, 2}) {
    EXPECT_TRUE(end_of(rank).ended_by_us) << rank;
    EXPECT_EQ(end_of(rank).last_lines, std::vector<std::string>{fmt::format("this is {}", rank)})
        << "in whatever order they ended";
  }
}

// On a busy machine a failing rank may report its reason later than its peers miss it. Here it sleeps far longer than
// `witness` and `grace`, so only `farewell` protects it. The launcher must wait for its reason before it ends any rank.
TEST_F(AttemptTest, HearsALeavingRankFirst) {
  const TemporaryFolder folder;
  LaunchOptions options = script(
      2, fmt::format("cd {}; if [ $RANK = 0 ]; then echo $$ > pid.new; mv pid.new pid; "
                     "echo 'zero train: rank 1: barrier: it left the run while rank 0 waits for it' >&2; exit 3; fi; "
                     "until [ -e pid ]; do sleep 0.01; done; while [ -d /proc/$(cat pid) ]; do sleep 0.01; done; "
                     "sleep 0.1; echo 'zero train: /d: write: No space left on device' >&2; exit 4",
                     folder.path().string()));
  options.witness = options.grace = std::chrono::milliseconds(1);
  options.farewell = std::chrono::minutes(5);
  const Attempt& attempt = run(options);
  EXPECT_FALSE(end_of(1).ended_by_us);
  ASSERT_NE(find_culprit(attempt.ends()), nullptr);
  EXPECT_EQ(find_culprit(attempt.ends())->rank, 1);
  EXPECT_EQ(exit_status(*find_culprit(attempt.ends())), 4);
}

TEST_F(AttemptTest, ForwardsAndRemembersASignal) {
  raise(SIGTERM);  // the inbox receives it
  const Attempt& attempt = run(script(2, "sleep 100"));
  EXPECT_EQ(attempt.stop_signal(), SIGTERM);
  EXPECT_FALSE(attempt.all_ended_well());
  for (const RankEnd& end : attempt.ends()) {
    EXPECT_EQ(end.end.signal, SIGTERM);
    EXPECT_TRUE(end.ended_by_us);
  }
  EXPECT_EQ(find_culprit(attempt.ends()), nullptr);
}

TEST_F(AttemptTest, RanksCountFromTheMachinesPlace) {
  LaunchOptions options = script(2, "echo $RANK of $WORLD_SIZE");
  options.nodes = 2;
  options.node_rank = 1;
  options.master_port = 1234;
  const Attempt& attempt = run(options);
  ASSERT_EQ(attempt.ends().size(), 2u);
  EXPECT_EQ(end_of(2).last_lines, std::vector<std::string>{"2 of 4"});
  EXPECT_NE(printed_.find("[rank 3] 3 of 4\n"), std::string::npos) << printed_;
}

TEST_F(AttemptTest, RemembersHiddenRanks) {
  LaunchOptions options = script(2, "echo from $RANK");
  options.shown_ranks = {1};
  run(options);
  EXPECT_EQ(printed_, "[rank 1] from 1\n");
  EXPECT_EQ(end_of(0).last_lines, std::vector<std::string>{"from 0"});
}

TEST_F(AttemptTest, FailedStartEndsEarlierRanks) {
  if (built::kSanitized) GTEST_SKIP() << "UndefinedBehaviorSanitizer wants a descriptor to look at an exception";
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  const auto open = static_cast<rlim_t>(std::distance(begin(fds), end(fds)));
  const rlimit few{.rlim_cur = open + 20, .rlim_max = descriptors_.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Attempt& attempt = run(script(8, "sleep 100"));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &descriptors_), 0);
  ASSERT_TRUE(attempt.not_started());
  const int local_rank = attempt.not_started()->local_rank;
  EXPECT_GT(local_rank, 0);
  EXPECT_LT(local_rank, 8);
  EXPECT_FALSE(attempt.all_ended_well());
  EXPECT_EQ(attempt.ends().size(), static_cast<std::size_t>(local_rank));
  for (const RankEnd& end : attempt.ends()) EXPECT_TRUE(end.ended_by_us);
  EXPECT_EQ(find_culprit(attempt.ends()), nullptr);
}

TEST_F(AttemptTest, UnrunnableProgramIsAConfigError) {
  LaunchOptions options = script(2, "");
  options.program = {"/no/such/program"};
  options_ = options;
  Attempt attempt(options_, {inbox_, guard_, memory_, descriptors_});
  EXPECT_THROW(attempt.run({.run_id = "test", .master_port = 1234}), ConfigError);
}

}  // namespace
}  // namespace zero
