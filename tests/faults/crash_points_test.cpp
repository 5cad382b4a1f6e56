// Crash points: kills and power cuts at the calls of a save, made by crash_points.py. By default it makes a few. All of
// them:
//
//   ZERO_TEST_TIER=full build/release/tests/zero_faults_test --gtest_filter=*CrashPoints*
//
// The full tier also commits the file system's journal before some earlier calls. The program has one rank in one run,
// and two ranks in the other.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/command_end.h"
#include "tests/support/this_build.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

constexpr int kSkipped = 77;
constexpr const char* kFew = "--points 3";

class CrashPoints : public testing::TestWithParam<int> {};

CommandEnd crash_points(const std::string& before, const std::string& how, int ranks) {
  // The full tier strikes every call. With power cuts it also strikes every call after a flush before each of four
  // earlier calls. `--commits` without a number is every pair of calls.
  const bool all = in_full_tier();
  const bool pairs = all && how == "power" && ranks == 1;
  const std::string command =
      fmt::format("{} python3 '{}/tests/faults/crash_points.py' {} --ranks {} --saver '{}' {} 2>&1", before,
                  built::kSourceFolder, how, ranks, built::kFaultSaver, all ? (pairs ? "--commits 4" : "") : kFew);
  CommandEnd end = end_of_command(command);
  if (all) std::printf("%s", end.text.c_str());
  return end;
}

// The kill may strike any call.
TEST_P(CrashPoints, KilledSaveLeavesOldOrNew) {
  const CommandEnd end = crash_points("", "kill", GetParam());
  if (end.status == kSkipped) GTEST_SKIP() << end.text;
  EXPECT_EQ(end.status, 0) << end.text;
  EXPECT_NE(end.text.find(" points, "), std::string::npos) << end.text;
}

// The cut may strike any call.
TEST_P(CrashPoints, PowerCutLeavesOldOrNew) {
  if (geteuid() != 0) GTEST_SKIP() << "a power cut needs root, to mount its own file system";
  if (std::system("unshare --mount --propagation private true 2>/dev/null") != 0)
    GTEST_SKIP() << "a power cut needs its own mounts, which are refused here (unshare --mount)";
  // The mounts end with the command, however it ends.
  const CommandEnd end = crash_points("unshare --mount --propagation private", "power", GetParam());
  if (end.status == kSkipped) GTEST_SKIP() << end.text;
  EXPECT_EQ(end.status, 0) << end.text;
  EXPECT_NE(end.text.find("without fsync: step 2 was acknowledged"), std::string::npos) << end.text;
}

INSTANTIATE_TEST_SUITE_P(Ranks, CrashPoints, testing::Values(1, 2));

}  // namespace
}  // namespace zero
