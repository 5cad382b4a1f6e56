// State that ranks leave with the launcher: memory that outlives them, and their last step.
#include <cerrno>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/memory_file.h"
#include "zero/comm/board/windows.h"
#include "zero/comm/flight/ring.h"
#include "zero/comm/launcher/launcher_memory.h"
#include "zero/comm/transport/record_flight.h"

#include "app/launch/failure_report.h"
#include "app/launch/held/memory_files.h"
#include "tests/launch/launched.h"
#include "tests/launch/rank_claims.h"

namespace zero {
namespace {

std::string memory_name(const char* folder) {
  return fmt::format("{}/rank-{:05}", folder, number("RANK"));
}

TEST(LauncherMemoryRank, PutsAndIsKilled) {
  SKIP_UNLESS_RANK();
  auto memory = LauncherMemory::of_environment(std::getenv);
  ASSERT_TRUE(memory);
  if (number("TORCHELASTIC_RESTART_COUNT") == 0) {
    const FileDescriptor copy = make_memory_file("copy", 100), flight = make_memory_file("flight", 100);
    memory->put(memory_name("copy"), copy.get());
    memory->put(memory_name("flight"), flight.get());
    const std::string words = fmt::format("of rank {}", number("RANK"));
    for (const int fd : {copy.get(), flight.get()})  // after the launcher received it
      ASSERT_EQ(pwrite(fd, words.data(), words.size(), 0), static_cast<ssize_t>(words.size()));
    const FileDescriptor written = make_memory_file("written", 1);
    memory->put(memory_name("written"), written.get());
    while (memory->list("written/").size() < 2) usleep(1000);
    if (number("RANK") == 1) kill(getpid(), SIGKILL);
    pause();
  }
  EXPECT_EQ(memory->list(""), (std::vector<std::string>{"copy/rank-00000", "copy/rank-00001", "written/rank-00000",
                                                        "written/rank-00001"}));
  for (int rank = 0; rank < 2; ++rank) {
    const auto copy = memory->get(fmt::format("copy/rank-{:05}", rank));
    ASSERT_TRUE(copy);
    char words[9] = {};
    ASSERT_EQ(pread(copy->get(), words, 9, 0), 9);
    EXPECT_EQ(std::string(words, 9), fmt::format("of rank {}", rank));
  }
}

// The ranks of the next attempt find the memory.
TEST(RanksKept, MemoryOutlivesKilledRank) {
  LaunchOptions options = ranks_of_this_test(2, "PutsAndIsKilled");
  options.max_restarts = 1;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 0) << outcome.output << outcome.errors;
  EXPECT_NE(outcome.errors.find("rank 1 of 2 failed with signal 9"), std::string::npos) << outcome.errors;
}

TEST(RanksKept, MemoryIsReadableAfterFailure) {
  LaunchOptions options = ranks_of_this_test(2, "PutsAndIsKilled");
  options.after_failure = [](const MemoryFiles& kept, std::span<const RankEnd> ends, int generation) -> std::string {
    for (const std::string& name : kept.names("flight/"))
      fmt::print(stderr, "{}: {}\n", name, read_memory_file(kept.find(name), 9));
    fmt::print(stderr, "{} ended in generation {}\n", ends.size(), generation);
    throw IoError("flight", "write", ENOSPC);
  };
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 3);
  for (const char* part : {"flight/rank-00000: of rank 0\n", "flight/rank-00001: of rank 1\n",
                           "2 ended in generation 0\n", "zero launch: flight: write"}) {
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
  }
}

// Notes steps `from` to `from + steps` of all attempts together, and dies.
void step_and_die(int from, int steps) {
  const Allocation memory = flight_memory(8, number("RANK"), std::getenv);
  FlightRing ring(memory.bytes(), {.rank = number("RANK"), .world = number("WORLD_SIZE")});
  for (int step = from; step <= from + steps; ++step) ring.note_step(step);
  if (number("RANK") == 1) kill(getpid(), SIGKILL);
  pause();
}

TEST(LauncherMemoryRank, DiesAlwaysAfterStepForty) {
  SKIP_UNLESS_RANK();
  step_and_die(0, 40);
}

TEST(LauncherMemoryRank, GetsTenStepsFurtherEachTime) {
  SKIP_UNLESS_RANK();
  if (const int attempt = number("TORCHELASTIC_RESTART_COUNT"); attempt < 4) step_and_die(10 * attempt, 10);
}

TEST(LauncherMemoryRank, DiesWithoutAStep) {
  SKIP_UNLESS_RANK();
  if (number("TORCHELASTIC_RESTART_COUNT") == 4) return;
  const Allocation memory = flight_memory(8, number("RANK"), std::getenv);
  const FlightRing ring(memory.bytes(), {.rank = number("RANK"), .world = number("WORLD_SIZE")});
  kill(getpid(), SIGKILL);
}

TEST(RanksKept, ThirdFailureAfterStepEndsLaunch) {
  LaunchOptions options = ranks_of_this_test(2, "DiesAlwaysAfterStepForty");
  options.max_restarts = 9;
  const Outcome outcome = run_launch(options);
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.errors.find("starting all ranks again (2 of 9)"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("(3 of 9)"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find("zero launch: 3 failures in a row after step 40: not started again\n"),
            std::string::npos)
      << outcome.errors;
}

// This includes a program that notes no step.
TEST(RanksKept, RestartsProgressingProgram) {
  for (const char* rank : {"GetsTenStepsFurtherEachTime", "DiesWithoutAStep"}) {
    LaunchOptions options = ranks_of_this_test(2, rank);
    options.max_restarts = 4;
    const Outcome outcome = run_launch(options);
    EXPECT_EQ(outcome.status, 0) << rank << outcome.errors;
    EXPECT_NE(outcome.errors.find("starting all ranks again (4 of 4)"), std::string::npos) << rank << outcome.errors;
  }
}

}  // namespace
}  // namespace zero
