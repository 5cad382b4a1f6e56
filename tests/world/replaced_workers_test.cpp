// Workers that are processes. They are killed, and come back as new processes, over gloo.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "tests/serve/served_run.h"
#include "tests/support/expect_contains.h"
#include "tests/world/suite.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kMostRanks = 8;
constexpr int kTooLate = 4;  // exit status of a replacement that learned that the run has ended

// MetProcesses: the number of the newest process of each rank that has met the other ranks. Forked processes share it.
class MetProcesses {
 public:
  MetProcesses()
      : newest_(new (mmap(nullptr, sizeof(Newest), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Newest) {
    for (std::atomic<int>& number : *newest_) number = -1;
  }
  ~MetProcesses() { munmap(newest_, sizeof *newest_); }
  MetProcesses(const MetProcesses&) = delete;
  MetProcesses& operator=(const MetProcesses&) = delete;

  void add(const RankEnvironment& ranks) const { (*newest_)[static_cast<std::size_t>(ranks.rank)] = ranks.replacement; }
  bool contains(const RankEnvironment& ranks) const {
    return (*newest_)[static_cast<std::size_t>(ranks.rank)] >= ranks.replacement;
  }

 private:
  using Newest = std::array<std::atomic<int>, kMostRanks>;
  Newest* newest_;
};

struct Trial {
  AttachOptions options;
  int workers = 1;
  int most = 1;  // most processes that come back
  TrainedClocks run{.clocks = 6};
  std::vector<std::uint32_t> weights{};  // expected weights
  // Called in a worker's process before each clock.
  std::function<void(int worker, int life, std::int64_t clock)> before = [](int, int, std::int64_t) {};
  // Called in a worker's process between its last push and its farewell.
  std::function<void(int life)> after_work = [](int) {};
  // Called in rank 0's process when the run is over, before rank 0 leaves.
  std::function<void(Communicator& run)> after_serving = [](Communicator&) {};
  // Called in the test's process after a worker's process has started.
  std::function<void(int life, pid_t process)> came = [](int, pid_t) {};
  bool ends_late = true;  // whether a replacement that has met nobody is ended after the servers, as a launcher does
  bool may_fail = false;  // whether the run may fail; when rank 0 ends, a launcher ends all other ranks
};

// Runs a rank's process, which was started `life` times before. Returns its exit status.
int live(const Trial& trial, const RankEnvironment& ranks, const MetProcesses& met) try {
  const SyncPlan& sync = trial.options.sync;
  const auto comm = open_transport("gloo", ranks, std::chrono::minutes(2));
  met.add(ranks);
  if (sync.is_server(ranks.rank)) {
    TrainedBits bits;
    serve(*comm, trial.options, small_specs(), trial.run, bits);
    if (ranks.rank == 0) {
      EXPECT_EQ(bits.weights, trial.weights);
      trial.after_serving(*comm);
    }
  } else {
    TrainedClocks run = trial.run;
    run.before = [&](int worker, std::int64_t clock) { trial.before(worker, ranks.replacement, clock); };
    comm->arrivals()->may_be_lost();
    work(*comm, trial.options, small_specs(), run);
    trial.after_work(ranks.replacement);
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "rank %d: %s\n", ranks.rank, error.what());
  return std::string_view(error.what()) == "opening gloo: the run ended before this process could be taken back"
             ? kTooLate
             : 3;
}

class ReplacedWorkers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!launched_transport().empty()) GTEST_SKIP() << "this test starts its own ranks";
    for (const TransportStatus& status : transport_statuses())
      if (status.name == "gloo" && !status.available) GTEST_SKIP() << status.why;
  }

  void TearDown() override { end_all(); }

  // Restarts killed processes. All other processes must end without an error, but a replacement may be too late. If the
  // run may fail, only rank 0 must end. Returns the number of restarts.
  int run(const Trial& trial) {
    const MetProcesses met;
    num_too_late_ = 0;
    RankEnvironment ranks;
    ranks.world = ranks.local_world = trial.options.sync.servers + trial.workers;
    ranks.run_id = unique_run_id();
    ranks.master_port = free_port();
    ranks.most_replacements = trial.most;
    for (int rank = 0; rank < ranks.world; ++rank) {
      ranks.rank = ranks.local_rank = rank;
      const pid_t process = start(trial, ranks, met);
      if (!trial.options.sync.is_server(rank)) trial.came(0, process);
    }
    int again = 0;
    const auto limit = Clock::now() + std::chrono::minutes(1);  // half of the ranks' timeout
    const auto is_first = [&](const auto& one) { return one.second.rank == 0; };
    const auto serves = [&](const auto& one) { return trial.options.sync.is_server(one.second.rank); };
    while (!HasFailure() && (trial.may_fail ? std::ranges::any_of(running_, is_first) : !running_.empty())) {
      int status = 0;
      const pid_t process = waitpid(-1, &status, WNOHANG);
      const auto ended = running_.find(process);
      if (ended == running_.end()) {
        if (trial.ends_late && std::ranges::none_of(running_, serves)) end_late_replacements(met);
        EXPECT_LT(Clock::now(), limit) << "the run hangs";
        std::this_thread::sleep_for(milliseconds(1));
        continue;
      }
      RankEnvironment next = ended->second;
      running_.erase(ended);
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && again < trial.most) {
        ++again;
        ++next.replacement;
        trial.came(next.replacement, start(trial, next, met));
        continue;
      }
      if (next.replacement > 0 && WIFEXITED(status) && WEXITSTATUS(status) == kTooLate) {
        ++num_too_late_;
        continue;
      }
      // Once in about 9,000 meetings, a thread of Gloo asks for the name of a peer whose connection was just reset. It
      // then ends its process (address.cc, getpeername).
      const bool by_gloo = trial.may_fail && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
      const bool ended_well =
          by_gloo || (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || (trial.may_fail && WEXITSTATUS(status) == 3)));
      EXPECT_TRUE(ended_well) << "rank " << next.rank << ": status " << status;
    }
    end_all();
    return again;
  }
  // Returns how many replacements of the newest run() learned that the run has ended.
  int num_too_late() const { return num_too_late_; }

 private:
  pid_t start(const Trial& trial, const RankEnvironment& ranks, const MetProcesses& met) {
    std::fflush(nullptr);
    const pid_t process = fork();
    if (process == 0) {
      const int status = live(trial, ranks, met);
      std::fflush(nullptr);
      _exit(status);
    }
    running_[process] = ranks;
    return process;
  }

  void end_late_replacements(const MetProcesses& met) {
    std::erase_if(running_, [&](const auto& one) {
      const auto& [process, ranks] = one;
      if (ranks.replacement == 0 || met.contains(ranks)) return false;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
      return true;
    });
  }

  void end_all() {
    for (const auto& [process, ranks] : running_) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    running_.clear();
  }

  std::map<pid_t, RankEnvironment> running_;
  int num_too_late_ = 0;
};

AttachOptions asynchronous(int servers) {
  return {.sync = {.mode = SyncMode::kAsync, .servers = servers, .staleness = 1}, .clip = 0.5};
}

// Two kills in a row. With one worker, the servers wait for it, so the order of events is always the same. Its second
// process ends before it has pushed.
TEST_F(ReplacedWorkers, ConsecutiveOnesKeepBits) {
  Trial trial{.options = asynchronous(2), .most = 2};
  trial.weights = plain_run({.clip = 0.5}, 1, small_specs(), trial.run).weights;
  trial.before = [](int, int life, std::int64_t clock) {
    if (life < 2 && clock == 2) kill(getpid(), SIGKILL);
  };
  EXPECT_EQ(run(trial), 2);
}

// The returning worker is killed at any moment. It waits to be taken back, meets the servers, computes, or leaves. Its
// new process may find the run ended. It may also have finished.
TEST_F(ReplacedWorkers, KillDuringReturnKeepsBits) {
  Trial trial{.options = asynchronous(2), .most = 2};
  trial.weights = plain_run({.clip = 0.5}, 1, small_specs(), trial.run).weights;
  trial.before = [](int, int life, std::int64_t clock) {
    if (life == 0 && clock == 2) kill(getpid(), SIGKILL);
  };
  std::mt19937_64 random(11);
  trial.came = [&](int life, pid_t process) {
    if (life != 1) return;
    usleep(static_cast<useconds_t>(random() % 40'000));  // any moment of the return
    kill(process, SIGKILL);
  };
  const int trials = num_trials("ZERO_KILLED_RETURNS", 2, 60);
  for (int i = 0; i < trials && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    run(trial);
  }
}

// A worker is killed after its last push, before it leaves. Its new process arrives while rank 0 is about to end.
TEST_F(ReplacedWorkers, LateOneLearnsThatRunEnded) {
  Trial trial{.options = asynchronous(2)};
  trial.weights = plain_run({.clip = 0.5}, 1, small_specs(), trial.run).weights;
  trial.ends_late = false;  // it ends by itself
  trial.after_work = [](int life) {
    if (life == 0) kill(getpid(), SIGKILL);
  };
  trial.after_serving = [](Communicator& run) {
    Arrivals& arrivals = *run.arrivals();
    arrivals.await([&] { return arrivals.replacements()->waiting(only(2)) >= 0; });
  };
  EXPECT_EQ(run(trial), 1);
  EXPECT_EQ(num_too_late(), 1);
}

// The new process arrives after rank 0 has ended.
TEST_F(ReplacedWorkers, NobodyAnswersAndNobodyIsBlamed) {
  RankEnvironment ranks{.rank = 2, .world = 3, .local_rank = 2, .local_world = 3, .run_id = unique_run_id()};
  ranks.master_port = free_port();
  ranks.replacement = ranks.most_replacements = 1;
  try {
    open_transport("gloo", ranks, milliseconds(50));
    FAIL() << "nobody is there";
  } catch (const CommError& error) {
    EXPECT_CONTAINS(error.what(), "the run has ended, or rank 0 has not begun");
    EXPECT_EQ(error.rank(), -1);
  }
}

// The new process arrives, and rank 0 stops waiting for an address or a connection of the old one.
TEST_F(ReplacedWorkers, KillDuringMeetingDelaysNobody) {
  Trial trial{.options = asynchronous(2)};
  trial.weights = plain_run({.clip = 0.5}, 1, small_specs(), trial.run).weights;
  trial.may_fail = true;
  std::mt19937_64 random(12);
  trial.came = [&](int life, pid_t process) {
    if (life != 0) return;
    usleep(static_cast<useconds_t>(random() % 20'000));  // any moment of the meeting
    kill(process, SIGKILL);
  };
  const int trials = num_trials("ZERO_KILLED_MEETINGS", 2, 60);
  for (int i = 0; i < trials && !HasFailure(); ++i) {
    SCOPED_TRACE(i);
    run(trial);
  }
}

}  // namespace
}  // namespace zero
