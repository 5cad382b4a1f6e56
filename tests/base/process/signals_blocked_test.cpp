#include "zero/base/process/signals_blocked.h"

#include <thread>

#include <gtest/gtest.h>

namespace zero {
namespace {

bool takes(int signal) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return sigismember(&mask, signal) == 0;
}

TEST(SignalsBlocked, AThreadStartedMeanwhileTakesNone) {
  bool child_takes = true;
  {
    const SignalsBlocked blocked;
    std::thread([&] { child_takes = takes(SIGTERM) || takes(SIGINT); }).join();
  }
  EXPECT_FALSE(child_takes);
}

TEST(SignalsBlocked, TheCallersOwnMaskComesBack) {
  const bool before = takes(SIGTERM);
  {
    const SignalsBlocked blocked;
    EXPECT_FALSE(takes(SIGTERM));
  }
  EXPECT_EQ(takes(SIGTERM), before);
}

}  // namespace
}  // namespace zero
