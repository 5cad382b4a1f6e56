#include "zero/base/process/thread_gate.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

using testing::HasSubstr;

TEST(ThreadGate, RefusesASecondThread) {
  ThreadGate gate;
  const ThreadGate::Entry entry(gate, 3);
  std::string text;
  std::thread([&] {
    try {
      const ThreadGate::Entry other(gate, 3);
    } catch (const ConfigError& error) {
      text = error.what();
    }
  }).join();
  EXPECT_THAT(text, HasSubstr("two threads of rank 3"));
}

TEST(ThreadGate, ThreadInsideMayEnterAgain) {
  ThreadGate gate;
  const ThreadGate::Entry entry(gate, 0);
  { const ThreadGate::Entry again(gate, 0); }
  bool refused = false;
  std::thread([&] {
    try {
      const ThreadGate::Entry other(gate, 0);
    } catch (const ConfigError&) {
      refused = true;
    }
  }).join();
  EXPECT_TRUE(refused);
}

TEST(ThreadGate, ThreadsTakeTurns) {
  ThreadGate gate;
  for (int turn = 0; turn < 3; ++turn) {
    { const ThreadGate::Entry entry(gate, 0); }
    std::thread([&] { const ThreadGate::Entry entry(gate, 0); }).join();
  }
}

}  // namespace
}  // namespace zero
