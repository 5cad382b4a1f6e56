#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/process/memory_file.h"
#include "zero/comm/board/windows.h"
#include "zero/comm/launcher/launcher_memory.h"

#include "tests/launch/launched.h"
#include "tests/launch/rank_claims.h"
#include "tests/support/temporary_folder.h"

namespace zero {
namespace {

const std::string kLine(60, 'x');
const std::string kFlood = "yes " + kLine;

// Ranks whose output nobody reads, so it fills all buffers. Each writes its process number to a file.
class UnreadOutput : public testing::Test {
 protected:
  std::string in_folder() const { return fmt::format("cd {}; echo $$ > $RANK; ", folder_.path().string()); }
  bool has(const char* name) const { return std::filesystem::exists(folder_ / name); }
  pid_t rank(const char* number) const {
    pid_t pid = -1;
    eventually([&] { return static_cast<bool>(std::ifstream(folder_ / number) >> pid); });
    return pid;
  }
  // Waits until the launcher's output is full, and the launcher reads no more from this rank.
  static void let_it_fill(const Launched& launched, pid_t rank, int stream = STDOUT_FILENO) {
    EXPECT_TRUE(eventually(
        [&] { return launched.is_full(stream) && is_full_pipe(fmt::format("/proc/{}/fd/{}", rank, stream)); }));
  }
  // Waits until the rank has ended, the launcher knows it, and the launcher's output is full.
  static void let_it_end(const Launched& launched, pid_t rank, int stream = STDOUT_FILENO) {
    EXPECT_TRUE(eventually([&] { return reaped(rank) && launched.is_full(stream); }));
  }

  const TemporaryFolder folder_;
};

TEST_F(UnreadOutput, DeadRankEndsItsPeers) {
  Launched launched(
      script(2, in_folder() + "if [ $RANK = 1 ]; then until [ -e full ]; do sleep 0.01; done; exit 7; fi; " + kFlood));
  const std::vector<pid_t> ranks{rank("0"), rank("1")};
  let_it_fill(launched, ranks[0]);
  EXPECT_TRUE(alive(ranks[0]));
  folder_.write("full", "");
  EXPECT_TRUE(all_gone(ranks));
  EXPECT_FALSE(launched.is_over()) << "output of the ranks is still unread";
  const Outcome outcome = launched.finish();
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.errors.find("rank 1 of 2 failed with exit status 7"), std::string::npos) << outcome.errors;
  EXPECT_LT(outcome.output.size(), std::size_t{4} << 20) << "held output has a limit";
}

TEST_F(UnreadOutput, ASignalEndsTheLaunch) {
  for (const bool to_errors : {false, true}) {
    Launched launched(script(1, in_folder() + kFlood + (to_errors ? " >&2" : "")));
    const pid_t pid = rank("0");
    let_it_fill(launched, pid, to_errors ? STDERR_FILENO : STDOUT_FILENO);
    launched.send(SIGTERM);
    EXPECT_TRUE(all_gone({pid}));
    EXPECT_TRUE(eventually([&] { return launched.is_over(); }));
    EXPECT_EQ(launched.finish().status, 128 + SIGTERM);
    std::filesystem::remove(folder_ / "0");
  }
}

TEST_F(UnreadOutput, SignalEndsWaitForReader) {
  Launched launched(script(1, in_folder() + kFlood + " | head -n 10000"));
  let_it_end(launched, rank("0"));
  EXPECT_FALSE(launched.is_over());
  launched.send(SIGTERM);
  EXPECT_TRUE(eventually([&] { return launched.is_over(); }));
  EXPECT_EQ(launched.finish().status, 0) << "the ranks had ended well";
}

TEST_F(UnreadOutput, EndedWaitKeepsFailure) {
  // 64 KiB fill the pipe, so the launcher's own report must wait.
  for (const std::string& text : {kFlood + " | head -n 10000", std::string("head -c 65536 /dev/zero | tr '\\0' x")}) {
    Launched launched(script(1, in_folder() + text + " >&2; exit 7"));
    let_it_end(launched, rank("0"), STDERR_FILENO);
    EXPECT_FALSE(launched.is_over()) << "its report has not been read";
    launched.send(SIGTERM);
    EXPECT_TRUE(eventually([&] { return launched.is_over(); }));
    EXPECT_EQ(launched.finish().status, 3);
    std::filesystem::remove(folder_ / "0");
  }
}

TEST_F(UnreadOutput, ALateReaderGetsEverything) {
  Launched launched(script(1, in_folder() + kFlood + " | head -n 50000"));
  let_it_fill(launched, rank("0"));
  EXPECT_FALSE(launched.is_over());
  const Outcome outcome = launched.finish();
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(lines(outcome.output).count(kLine), 50'000u);
}

TEST(LauncherMemoryRank, EndlessPrinterDoesNotBlockOthers) {
  SKIP_UNLESS_RANK();
  const std::filesystem::path folder(std::getenv("ZERO_TEST_FOLDER"));
  if (number("RANK") == 0) {
    std::ofstream(folder / "0") << getpid() << '\n';
    while (true) std::puts("much");
  }
  while (!std::filesystem::exists(folder / "full")) usleep(1000);
  auto memory = LauncherMemory::of_environment(std::getenv);
  ASSERT_TRUE(memory);
  memory->put("copy/rank-00001", make_memory_file("copy", 100).get());
  EXPECT_EQ(memory->list(""), std::vector<std::string>{"copy/rank-00001"});
  std::ofstream(folder / "served") << "yes";
  pause();
}

TEST_F(UnreadOutput, RanksAreServedAllTheSame) {
  LaunchOptions options = ranks_of_this_test(2, "EndlessPrinterDoesNotBlockOthers");
  options.variables.emplace_back("ZERO_TEST_FOLDER", folder_.path());
  Launched launched(options);
  let_it_fill(launched, rank("0"));
  folder_.write("full", "");
  EXPECT_TRUE(eventually([&] { return has("served"); }));
  launched.send(SIGTERM);
  EXPECT_EQ(launched.finish().status, 128 + SIGTERM);
}

}  // namespace
}  // namespace zero
