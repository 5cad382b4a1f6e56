#include "app/train/watch/stop_signal.h"

#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

namespace zero {
namespace {

// Signals go to this thread, because libtorch may have started others before, without these signals blocked.
TEST(StopSignal, NothingIsPendingAtFirst) {
  EXPECT_EQ(StopSignal().pending(), 0);
}

TEST(StopSignal, SignalIsNotedAndKillsNobody) {
  const StopSignal stop;
  ::raise(SIGTERM);
  EXPECT_EQ(stop.pending(), SIGTERM);
  EXPECT_EQ(stop.pending(), SIGTERM) << "and stays";
}

TEST(StopSignal, ThreadsHearOfItToo) {
  const StopSignal stop;
  int heard = 0;
  std::thread thread([&] {
    ::raise(SIGINT);
    heard = stop.pending();
  });
  thread.join();
  EXPECT_EQ(heard, SIGINT);
  EXPECT_EQ(stop.pending(), SIGINT);
}

TEST(StopSignal, TheFirstSignalCounts) {
  const StopSignal stop;
  ::raise(SIGTERM);
  ASSERT_EQ(stop.pending(), SIGTERM);
  ::raise(SIGINT);
  EXPECT_EQ(stop.pending(), SIGTERM);
  // Takes the signal away, or it would arrive when the scope ends.
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  int taken = 0;
  ASSERT_EQ(::sigwait(&interrupt, &taken), 0);
}

TEST(StopSignal, DestructionRestoresSignals) {
  sigset_t before, after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
  { const StopSignal stop; }
  ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
  EXPECT_EQ(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
}

}  // namespace
}  // namespace zero
