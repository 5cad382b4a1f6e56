// Waits for messages in a program of another language, such as Python.
#include <atomic>
#include <stdexcept>

#include <gtest/gtest.h>

#include "zero/base/process/host_language.h"

#include "tests/comm/fake_link.h"
#include "tests/support/expect_contains.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

std::atomic<int> num_checks{0}, num_unlocked{0};

void throw_at_second_check() {
  if (++num_checks == 2) throw Interrupted();
}

class HostLanguageWait : public testing::Test {
 protected:
  void SetUp() override { num_checks = num_unlocked = 0; }
  void TearDown() override { set_host_language({}); }
};

// Rank 1 begins no collective, so rank 0 waits.
TEST_F(HostLanguageWait, EndsByAnException) {
  set_host_language({.check_wait = &throw_at_second_check});
  FakeNetwork network;
  const auto begin = std::chrono::steady_clock::now();
  const auto ends = run_over(network, 2, milliseconds(60000), [](Communicator& comm) {
    if (comm.rank() == 0) comm.barrier({}).wait();
    while (num_checks < 2) std::this_thread::sleep_for(milliseconds(5));
  });
  EXPECT_CONTAINS(ends[0], "interrupted");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(HostLanguageWait, StillEndsByTheTimeout) {
  set_host_language({.check_wait = [] { ++num_checks; }});
  FakeNetwork network;
  const auto ends = run_over(network, 2, milliseconds(120), [](Communicator& comm) {
    if (comm.rank() == 0) comm.barrier({}).wait();
    if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(600));
  });
  EXPECT_CONTAINS(ends[0], "absent after 120 ms");
  EXPECT_GE(num_checks, 2);
}

TEST_F(HostLanguageWait, GivesUpTheLock) {
  static int state = 0;
  set_host_language({.unlock = []() -> void* { return &state; }, .lock = [](void*) { ++num_unlocked; }});
  FakeNetwork network;
  for (const std::string& end :
       run_over(network, 2, milliseconds(10000), [](Communicator& comm) { comm.barrier({}).wait(); }))
    EXPECT_EQ(end, "");
  EXPECT_GE(num_unlocked, 2);
}

}  // namespace
}  // namespace zero
