// Processes that die or stop in the middle of a collective. They leave no shared memory.
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include <signal.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/comm/board/shared_memory.h"

#include "tests/support/expect_contains.h"
#include "tests/world/pattern.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

std::set<std::string> shared_memory_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) names.insert(entry.path());
  return names;
}

// Runs collectives without end, from windows and from the heap. `rounds` counts them.
void work_forever(Communicator& comm, std::atomic<int>& rounds) {
  Allocation window = comm.allocate(200000);
  std::vector<std::byte> heap(100000), out(200000 * comm.world());
  while (true) {
    comm.all_gather(window.bytes(), out, {.unit = 1}).wait();
    comm.all_gather(heap, std::span(out).first(heap.size() * comm.world()), {.unit = 2}).wait();
    comm.drain();
    ++rounds;
    rounds.notify_one();
  }
}

// All other ranks name it.
TEST(Faults, KilledRankIsNamedAtOnce) {
  const auto files = shared_memory_files();
  for (int round = 0; round < 10; ++round) {
    const int victim = round % 3;
    const auto ends = run_world({.transport = "shared_memory", .size = 3, .timeout = kNever}, [&](Communicator& comm) {
      std::atomic<int> rounds = 0;
      if (comm.rank() != victim) return work_forever(comm, rounds);
      std::jthread killer([&] {
        // The kill comes from another thread, so it strikes at any place in a collective.
        for (int seen = 0; seen < 3 + 10 * round; seen = rounds) rounds.wait(seen);
        kill(getpid(), SIGKILL);
      });
      work_forever(comm, rounds);
    });
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == victim) {
        EXPECT_EQ(ends[rank], "signal 9");
      } else {
        EXPECT_CONTAINS(ends[rank], fmt::format("rank {}: all_gather", victim));
        EXPECT_CONTAINS(ends[rank], "its process ended");
      }
    }
  }
  EXPECT_EQ(shared_memory_files(), files);
}

// The error says that the rank is stopped.
TEST(Faults, StoppedRankIsNamedAtTimeout) {
  const auto ends =
      run_world({.transport = "shared_memory", .size = 3, .timeout = kSoon, .patience = milliseconds(2000)},
                [](Communicator& comm) {
                  comm.barrier({.unit = 4}).wait();
                  if (comm.rank() == 1) kill(getpid(), SIGSTOP);
                  comm.barrier({.unit = 5}).wait();
                });
  EXPECT_EQ(ends[1], "did not end");
  for (const int rank : {0, 2}) {
    EXPECT_CONTAINS(ends[rank], "rank 1: barrier #2 (unit 5): it is absent after 1 s");
    EXPECT_CONTAINS(ends[rank], "it last began barrier #1 (unit 4)");
    EXPECT_CONTAINS(ends[rank], "is stopped (SIGSTOP)");
  }
}

// The error names the dead rank, not the rank that waits for it.
TEST(Faults, WaitChainNamesDeadRank) {
  // Rank 0 waits for a message of rank 1. Rank 1 waits for one of rank 2, which dies.
  const auto ends = run_world({.transport = "shared_memory", .size = 3}, [](Communicator& comm) {
    std::vector<std::byte> data(10);
    comm.barrier({}).wait();
    if (comm.rank() == 2) kill(getpid(), SIGKILL);
    comm.receive(data, comm.rank() + 1, {}).wait();
  });
  for (const int rank : {0, 1}) EXPECT_CONTAINS(ends[rank], "rank 2: ");
}

TEST(Faults, MissingRankIsNamedByAll) {
  const auto connect = [](int rank, const std::string& run_id, milliseconds limit) -> std::string {
    try {
      connect_shared_memory({.rank = rank, .world = 4, .local_rank = rank, .local_world = 4, .run_id = run_id}, limit);
      return "";
    } catch (const CommError& error) {
      return error.what();
    }
  };
  // A busy machine may not start rank 2 within a short limit. Rank 2 is then also missing, and the test tries a longer
  // limit.
  for (milliseconds limit{1000};; limit *= 4) {
    const std::string run_id = unique_run_id(),
                      missing = fmt::format("ranks 1, 3 did not arrive within {} ms", limit.count());
    std::string other;
    std::jthread thread([&] { other = connect(2, run_id, limit); });
    const std::string zero = connect(0, run_id, limit);
    thread.join();
    if (zero.find("ranks 1, 2, 3") != std::string::npos && limit < milliseconds(60000)) continue;
    EXPECT_CONTAINS(zero, missing);
    EXPECT_CONTAINS(other, missing);
    break;
  }
  // Rank 0 is missing.
  EXPECT_CONTAINS(connect(2, unique_run_id(), milliseconds(1000)), "rank 0: rendezvous of the ranks: did not open");
}

TEST(Faults, RefusesTwoRanksOfOneNumber) {
  const std::string run_id = unique_run_id();
  const auto connect = [&](int rank) -> std::string {
    try {
      connect_shared_memory({.rank = rank, .world = 3, .local_rank = rank, .local_world = 3, .run_id = run_id},
                            milliseconds(2000));
      return "";
    } catch (const CommError& error) {
      return error.what();
    }
  };
  std::string ends[2];
  std::jthread first([&] { ends[0] = connect(1); }), second([&] { ends[1] = connect(1); });
  EXPECT_CONTAINS(connect(0), "is a second rank 1");
  first.join();
  second.join();
  EXPECT_TRUE(ends[0].find("is a second rank 1") != std::string::npos ||
              ends[1].find("is a second rank 1") != std::string::npos);
}

TEST(Faults, RefusesWorldsBeyondOneHost) {
  const auto reason = [](const RankEnvironment& ranks) -> std::string {
    try {
      connect_shared_memory(ranks, milliseconds(100));
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_CONTAINS(reason({.world = 65, .local_world = 65, .run_id = "x"}), "cannot hold 65 ranks");
  EXPECT_CONTAINS(reason({.world = 4, .local_world = 2, .run_id = "x"}), "2 of 4 ranks are here");
  EXPECT_CONTAINS(reason({.world = 2, .local_world = 2}), "ZERO_RUN_ID");
  EXPECT_EQ(reason({}), "");
}

TEST(Faults, SixtyFourRanksMeetAndCollect) {
  expect_world({.transport = "shared_memory", .size = 64, .timeout = milliseconds(60000)}, [](Communicator& comm) {
    const std::vector<std::byte> in = pattern(5000, comm.rank());
    std::vector<std::byte> out(in.size() * comm.world());
    comm.all_gather(in, out, {}).wait();
    for (int r = 0; r < comm.world(); ++r)
      EXPECT_TRUE(holds_pattern(std::span(out).subspan(r * in.size(), in.size()), r));
    comm.drain();
  });
}

TEST(Faults, SuccessiveRunsOfOneNameSeparate) {
  const std::string run_id = unique_run_id();
  for (int round = 0; round < 5; ++round) {
    const auto connect = [&](int rank) {
      return connect_shared_memory({.rank = rank, .world = 2, .local_rank = rank, .local_world = 2, .run_id = run_id},
                                   milliseconds(5000));
    };
    std::jthread other([&] { connect(1)->barrier({}).wait(); });
    connect(0)->barrier({}).wait();
  }
}

}  // namespace
}  // namespace zero
