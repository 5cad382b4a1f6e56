#include "zero/comm/board/bell.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace zero {
namespace {

using std::chrono::milliseconds;

// Two sides that answer each other. A lost ring would show as a wait until the limit.
void bounce(Bell& own, Bell& other, std::atomic<int>& ball, int turn, int rounds) {
  for (int i = turn; i < rounds; i += 2) {
    const auto changed = [&] { return ball.load(std::memory_order_seq_cst) == i; };
    while (!changed()) own.sleep(changed, milliseconds(100000));
    ball.store(i + 1, std::memory_order_seq_cst);
    other.ring();
  }
}

TEST(Bell, NoRingIsLostBetweenThreads) {
  Bell bells[2] = {};
  std::atomic<int> ball = 0;
  std::jthread other([&] { bounce(bells[1], bells[0], ball, 1, 20000); });
  bounce(bells[0], bells[1], ball, 0, 20000);
  other.join();
  EXPECT_EQ(ball.load(), 20000);
}

TEST(Bell, NoRingIsLostBetweenProcesses) {
  struct Shared {
    Bell bells[2];
    std::atomic<int> ball;
  };
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& shared = *static_cast<Shared*>(memory);
  const pid_t child = fork();
  if (child == 0) {
    bounce(shared.bells[1], shared.bells[0], shared.ball, 1, 5000);
    _exit(0);
  }
  bounce(shared.bells[0], shared.bells[1], shared.ball, 0, 5000);
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(shared.ball.load(), 5000);
  munmap(memory, sizeof(Shared));
}

TEST(Bell, ASleepEndsAtItsLimit) {
  Bell bell = {};
  const auto begin = std::chrono::steady_clock::now();
  bell.sleep([] { return false; }, milliseconds(30));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(29));
}

TEST(Bell, SkipsSleepAfterTheChange) {
  Bell bell = {};
  bell.sleep([] { return true; }, milliseconds(1000000));
  SUCCEED();
}

TEST(Bell, SpinningGivesUp) {
  int looks = 0;
  EXPECT_FALSE(spin_until([&] { return ++looks < 0; }));
  EXPECT_GT(looks, 1);
  EXPECT_TRUE(spin_until([&] { return --looks < 10; }));
}

}  // namespace
}  // namespace zero
