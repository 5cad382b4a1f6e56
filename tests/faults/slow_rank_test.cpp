// A rank becomes slow while it trains: it is stopped for three quarters of the time.
#include <algorithm>

#include <fmt/format.h>

#include "tests/faults/train_fault_test.h"

namespace zero {
namespace {

using SlowRank = TrainFaultTest;

// Synchronous ranks wait for the slow rank. Measured shares give it fewer samples, and a line says so.
TEST_F(SlowRank, GetsFewerSamplesWithANote) {
  WatchedCommand command(train("run", {"-n", "2"},
                               {{"train.steps", "1000000"},
                                {"train.batch", "8"},
                                {"train.share", "auto"},
                                {"train.eval_every", "0"},
                                {"checkpoint.every", "0"},
                                {"run.threads", "1"}}));
  ASSERT_TRUE(command.wait_for("step 10/")) << command.text();
  const pid_t slow = command.wait_for_rank(1);
  const std::size_t from = command.text().size();
  // A rank that computes a quarter of the time takes 3 or 4 of 16 samples. On a busy machine it may be one more or
  // less.
  const auto gets_few = [&] {
    for (const char* const shares : {"11 + 5", "12 + 4", "13 + 3", "14 + 2", "15 + 1"})
      if (command.text().find(fmt::format("from now on the ranks take {} samples", shares), from) != std::string::npos)
        return true;
    return false;
  };
  const auto deadline = Clock::now() + std::chrono::minutes(3);
  while (!gets_few() && Clock::now() < deadline) {
    const auto runs = Clock::now();
    ::kill(slow, SIGCONT);
    command.read_until(runs + std::chrono::microseconds(2500));
    ::kill(slow, SIGSTOP);
    const auto stops = Clock::now();
    // The stop is three times as long as the run, even if this process was delayed. It has a limit, because the other
    // rank does not wait for ever.
    command.read_until(stops + std::min<Clock::duration>(3 * (stops - runs), std::chrono::seconds(5)));
  }
  ::kill(slow, SIGCONT);
  EXPECT_TRUE(gets_few()) << command.text();
  command.send(SIGTERM);
  command.finish();
}

}  // namespace
}  // namespace zero
