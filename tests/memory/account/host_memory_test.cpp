#include "zero/memory/account/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/process/process_memory.h"

#include "tests/support/this_build.h"

namespace zero {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

TEST(HostMemory, IsZeroedAndFullSize) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, std::size_t{4097}, 2 * kMiB, 5 * kMiB + 13}) {
    const Allocation memory = allocate_host(bytes);
    ASSERT_EQ(memory.size(), bytes);
    EXPECT_TRUE(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{0}; }));
    std::memset(memory.data(), 0x5a, bytes);  // also writable to its last byte
  }
}

// A small allocation begins on a page, a large one on a huge page.
TEST(HostMemory, AlignsToPagesAndHugePages) {
  const auto misalignment = [](std::size_t bytes, std::size_t alignment) {
    return reinterpret_cast<std::uintptr_t>(allocate_host(bytes).data()) % alignment;
  };
  EXPECT_EQ(misalignment(100, 4096), 0U);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(misalignment(2 * kMiB + 4096 * static_cast<std::size_t>(i), 2 * kMiB), 0U);
}

TEST(HostMemory, CostsTouchedPagesUntilFreed) {
  const auto before = resident_bytes();
  std::int64_t untouched = 0;
  std::int64_t touched = 0;
  {
    const Allocation memory = allocate_host(64 * kMiB);
    untouched = resident_bytes();
    std::memset(memory.data(), 1, memory.size());
    touched = resident_bytes();
  }
  constexpr std::int64_t kSlack = 4 << 20;
  EXPECT_LT(untouched, before + kSlack);
  EXPECT_GE(touched, before + (64 << 20) - kSlack);
  EXPECT_LT(resident_bytes(), touched - (64 << 20) + kSlack);
}

TEST(HostMemory, NothingIsAnEmptyAllocation) {
  EXPECT_FALSE(allocate_host(0));
}

// The error has a remedy.
TEST(HostMemory, FailedAllocationIsConfigError) {
  for (const std::size_t bytes :
       {std::numeric_limits<std::size_t>::max(), std::size_t{1} << 62, std::size_t{1} << 50}) {
    try {
      allocate_host(bytes);
      ADD_FAILURE() << bytes << " bytes were given";
    } catch (const ConfigError& error) {
      EXPECT_EQ(error.key(), "memory");
      EXPECT_NE(std::string(error.what()).find("higher stage"), std::string::npos) << error.what();
    }
  }
}

// Page faults if blocks are made, touched and freed once, with the sizes of a training step.
long faults_of_a_round() {
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  for (const std::size_t bytes : {1 * kMiB, 40 * kMiB, 3 * kMiB}) {
    const std::unique_ptr<std::byte[]> block(new std::byte[bytes]);
    for (std::size_t i = 0; i < bytes; i += 4096) static_cast<volatile std::byte*>(block.get())[i] = std::byte{1};
  }
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

// keep_heap() cannot be undone, so a child process tries it. Its exit status is the number of the failed claim.
int heap_claims() {
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // one fault per page, whatever this system's setting is
  if (faults_of_a_round() < 10000 || faults_of_a_round() < 10000) return 1;  // default malloc: faults in every round
  if (!keep_heap() || !keep_heap()) return 2;
  faults_of_a_round();
  if (faults_of_a_round() > 100) return 3;  // after keep_heap(): no more
  long elsewhere = 0;
  std::thread([&] { elsewhere = faults_of_a_round(); }).join();
  return elsewhere > 1000 ? 4 : 0;  // one heap serves all threads
}

// GoogleTest runs suites with "DeathTest" in their name first. The threads of other suites leave arenas that stay in
// use.
TEST(KeptHeapDeathTest, FaultsItsPagesInOnce) {
  if (built::kSanitized) GTEST_SKIP() << "malloc is the sanitizer's";
  const pid_t child = fork();
  if (child == 0) _exit(heap_claims());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "number of the claim in heap_claims()";
}

}  // namespace
}  // namespace zero
