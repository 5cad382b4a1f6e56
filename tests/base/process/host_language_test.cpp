#include "zero/base/process/host_language.h"

#include <gtest/gtest.h>

namespace zero {
namespace {

int state = 0;
int num_locks = 0;
bool holds = true;

void* unlock() {
  return holds ? &state : nullptr;
}
void lock(void* given) {
  EXPECT_EQ(given, &state);
  ++num_locks;
}

class HostLanguageTest : public testing::Test {
 protected:
  void SetUp() override {
    num_locks = 0;
    holds = true;
  }
  void TearDown() override { set_host_language({}); }
};

TEST_F(HostLanguageTest, TakesTheLockBack) {
  set_host_language({.unlock = &unlock, .lock = &lock});
  {
    const HostUnlocked unlocked;
    EXPECT_EQ(num_locks, 0);
  }
  EXPECT_EQ(num_locks, 1);
}

TEST_F(HostLanguageTest, ThreadWithoutTheLockTakesNone) {
  set_host_language({.unlock = &unlock, .lock = &lock});
  holds = false;
  { const HostUnlocked unlocked; }
  EXPECT_EQ(num_locks, 0);
}

TEST_F(HostLanguageTest, ProgramsWithoutOneNeedNoLock) {
  const HostUnlocked unlocked;
  check_wait();
}

}  // namespace
}  // namespace zero
