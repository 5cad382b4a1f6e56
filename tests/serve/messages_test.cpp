// Servers and workers that exchange messages. They have the same bits as ranks that read each other's memory.
#include <latch>

#include <gtest/gtest.h>

#include "tests/comm/fake_link.h"
#include "tests/serve/served_run.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

// Returns how each rank ended.
std::vector<std::string> serve_over_messages(const AttachOptions& options, int workers, const TrainedClocks& run,
                                             TrainedBits& bits) {
  FakeNetwork network;
  const bool may_be_lost = options.sync.mode == SyncMode::kAsync || options.sync.quorum > 0;
  return run_over(network, options.sync.servers + workers, std::chrono::seconds(60), [&](Communicator& comm) {
    if (options.sync.is_server(comm.rank())) return serve(comm, options, small_specs(), run, bits);
    if (may_be_lost) comm.arrivals()->may_be_lost();
    work(comm, options, small_specs(), run);
  });
}

TrainedBits bits_over_messages(const AttachOptions& options, int workers, const TrainedClocks& run) {
  TrainedBits bits;
  const auto ends = serve_over_messages(options, workers, run, bits);
  EXPECT_EQ(ends, std::vector<std::string>(ends.size()));
  return bits;
}

TEST(ServersOverMessages, StaleRunsMatchSharedMemory) {
  const AttachOptions options{.sync = {.mode = SyncMode::kStale, .servers = 2, .staleness = 1}};
  const TrainedBits served = served_run(options, 3, small_specs(), {.clocks = 5});
  const TrainedBits messages = bits_over_messages(options, 3, {.clocks = 5});
  EXPECT_EQ(messages.weights, served.weights);
  EXPECT_EQ(messages.losses, served.losses);
  EXPECT_EQ(messages.norms, served.norms);
}

// The replay is equal to the bit.
TEST(ServersOverMessages, AsynchronousRunReplaysElsewhere) {
  const AttachOptions options{.sync = {.mode = SyncMode::kAsync, .servers = 2, .staleness = 3}};
  const TrainedBits recorded = bits_over_messages(options, 3, {.clocks = 6});
  const TrainedClocks again{.clocks = 6, .replayed = recorded.events};
  EXPECT_EQ(served_run(options, 3, small_specs(), again).weights, recorded.weights);
  EXPECT_EQ(bits_over_messages(options, 3, again).weights, recorded.weights);
}

TrainedClocks without_worker(int lost) {
  return {.clocks = 6, .before = [lost](int worker, std::int64_t clock) {
            if (worker == lost && clock == 2) throw std::runtime_error("this worker ends");
          }};
}

TEST(ServersOverMessages, AsynchronousRunSurvivesLostWorker) {
  TrainedBits bits;
  const auto ends = serve_over_messages({.sync = {.mode = SyncMode::kAsync, .servers = 2, .staleness = 1}}, 3,
                                        without_worker(1), bits);
  EXPECT_EQ(ends, (std::vector<std::string>{"", "", "", "this worker ends", ""}));
  EXPECT_EQ(bits.losses.size(), 6U);
}

// Two of three workers do not wait for the third, which continues at the newest clock. These two wait before the last
// clock. Otherwise worker 2 might never begin a clock in which it ends.
TEST(ServersOverMessages, QuorumContinuesWithoutWorker) {
  std::latch is_lost{1};
  const TrainedClocks run{.clocks = 6, .before = [&](int worker, std::int64_t clock) {
                            if (worker != 2) return clock == 5 ? is_lost.wait() : void();
                            if (clock < 2) return;
                            is_lost.count_down();
                            throw std::runtime_error("this worker ends");
                          }};
  TrainedBits bits;
  const auto ends = serve_over_messages({.sync = {.servers = 1, .quorum = 2}}, 3, run, bits);
  EXPECT_EQ(ends, (std::vector<std::string>{"", "", "", "this worker ends"}));
  EXPECT_EQ(bits.losses.size(), 6U);
}

// All ranks end with the worker's name.
TEST(ServersOverMessages, StaleRunEndsNamingLostWorker) {
  TrainedBits bits;
  const auto ends = serve_over_messages({.sync = {.mode = SyncMode::kStale, .servers = 2, .staleness = 1}}, 3,
                                        without_worker(1), bits);
  for (const int rank : {0, 1, 2, 4}) EXPECT_TRUE(says(ends[static_cast<std::size_t>(rank)], "rank 3: ")) << ends[0];
}

}  // namespace
}  // namespace zero
