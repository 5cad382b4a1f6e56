// Workers that stop while they read weights or in the middle of a push, and continue later, over shared memory and
// messages. Each process is a thread here.
#include <atomic>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/comm/fake_link.h"
#include "tests/serve/beside.h"
#include "tests/serve/served_run.h"
#include "tests/serve/stops_within.h"
#include "tests/support/message_of.h"

namespace zero {
namespace {

using std::chrono::milliseconds;
using Kind = PushAction::Kind;

// There are more units than servers send ahead, and some parts are read in place. Two units are frozen.
std::vector<ParamSpec> many_units() {
  std::vector<ParamSpec> specs;
  for (int i = 0; i < 12; ++i)
    specs.push_back({.name = fmt::format("h.{}.weight", i),
                     .shape = {i % 3 == 0 ? 64 : 5, 64},
                     .trainable = i % 6 != 4,
                     .own_unit = true});
  return specs;
}

// A run with three or more workers. If `stops(worker)`, the worker stops once from clock 2 on, at `part` within
// `within`, until stand() returns.
struct StoppedRun {
  AttachOptions options;
  int workers = 3;
  std::int64_t clocks = 20;
  Within within = Within::kWeights;
  int part = 3;
  std::function<bool(int worker)> stops = [](int worker) { return worker == 2; };
  std::function<void(int worker)> stand = [](int) {};
  std::function<void(int worker, std::int64_t clock)> before = [](int, std::int64_t) {};
  std::function<void(std::int64_t clock)> updates = [](std::int64_t) {};  // called when servers update this clock
  std::function<void()> servers_ended = [] {};
  std::deque<PushEvent> replayed{};
  milliseconds timeout{60'000};
  bool over_messages = false;
};

struct Outcome {
  TrainedBits bits;
  std::vector<std::string> ends;
};

Outcome run(const StoppedRun& story) {
  Outcome outcome;
  const SyncPlan& sync = story.options.sync;
  const auto body = [&](Communicator& comm) {
    TrainedClocks run{.clocks = story.clocks, .before = story.before, .replayed = story.replayed};
    if (sync.is_server(comm.rank())) {
      struct Says {
        const StoppedRun& story;
        ~Says() { story.servers_ended(); }
      } const says{story};
      run.lr = [&story, lr = run.lr](std::int64_t clock) {
        story.updates(clock);
        return lr(clock);
      };
      return serve(comm, story.options, many_units(), run, outcome.bits);
    }
    if (sync.mode == SyncMode::kAsync || sync.quorum > 0) comm.arrivals()->may_be_lost();
    const int worker = sync.worker_of(comm.rank());
    if (!story.stops(worker)) return work(comm, story.options, many_units(), run);
    StopsWithin stopping(comm, story.within, story.part, [&] { story.stand(worker); });
    run.before = [&](int index, std::int64_t clock) {
      if (clock >= 2) stopping.arm();
      story.before(index, clock);
    };
    work(stopping, story.options, many_units(), run);
  };
  const int world = sync.servers + story.workers;
  if (story.over_messages) {
    FakeNetwork network;
    outcome.ends = run_over(network, world, story.timeout, body);
  } else {
    outcome.ends = ends_of_ranks(world, body, story.timeout);
  }
  return outcome;
}

AttachOptions asynchronous(int servers) {
  return {.sync = {.mode = SyncMode::kAsync, .servers = servers, .staleness = 100}};
}
AttachOptions quorum_of_two(int servers) {
  return {.sync = {.servers = servers, .quorum = 2}};
}

struct Case {
  Within within;
  int servers;
  bool over_messages;
};
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Within within : {Within::kWeights, Within::kPush})
    for (const int servers : {1, 2})
      for (const bool over_messages : {false, true}) cases.push_back({within, servers, over_messages});
  return cases;
}
std::string describe(const Case& one) {
  return fmt::format("{}, {} servers, {}", name_of(one.within), one.servers, one.over_messages ? "messages" : "memory");
}

Outcome run_beside(const Case& one, const AttachOptions& options, std::int64_t clocks, Beside& beside) {
  StoppedRun story{.options = options,
                   .clocks = clocks,
                   .within = one.within,
                   .stand = [&](int) { beside.stand(); },
                   .before = [&](int worker, std::int64_t clock) { beside.at(worker, clock); },
                   .over_messages = one.over_messages};
  Outcome outcome = run(story);
  EXPECT_EQ(outcome.ends, std::vector<std::string>(outcome.ends.size()));
  story.replayed = outcome.bits.events;
  story.stops = [](int) { return false; };
  const Outcome again = run(story);
  EXPECT_EQ(again.bits.weights, outcome.bits.weights) << "a replay has the bits";
  EXPECT_EQ(again.bits.losses, outcome.bits.losses);
  return outcome;
}

// The run takes the worker back.
TEST(StoppedWorker, AsynchronousRunOutlastsStopInTransfer) {
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(describe(one));
    Beside beside(12, true);
    const Outcome outcome = run_beside(one, asynchronous(one.servers), 16, beside);
    EXPECT_GE(beside.ahead(), 12);
    std::int64_t updates = 0, oldest = 0;
    for (const PushAction& action : outcome.bits.actions) {
      if (action.kind != Kind::kUpdate) continue;
      ++updates;
      oldest = std::max(oldest, action.age);
    }
    EXPECT_EQ(updates, 3 * 16) << "the stopped worker also does all of its clocks, later";
    EXPECT_GE(oldest, 9);
    EXPECT_EQ(last_push(2, outcome.bits.events), 15);
  }
}

// The run takes the worker back.
TEST(StoppedWorker, QuorumOutlastsStopInTransfer) {
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(describe(one));
    Beside beside(12);
    const Outcome outcome = run_beside(one, quorum_of_two(one.servers), 40, beside);
    EXPECT_GE(beside.ahead(), 12);
    EXPECT_EQ(outcome.bits.losses.size(), 40U);
    EXPECT_TRUE(std::ranges::any_of(outcome.bits.actions, [](const PushAction& action) {
      return action.kind == Kind::kDrop && action.workers == std::vector<int>{2};
    })) << "its old gradient is dropped";
    EXPECT_GE(last_push(2, outcome.bits.events), 12) << "it continues at the newest clock";
  }
}

// A worker stops within a transfer. After the last update it continues, and learns that the run is over. Worker 0
// passes clock 3 after worker 2 has stopped.
TEST(StoppedWorker, EndedRunTellsContinuedWorker) {
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(describe(one));
    std::atomic<bool> stands = false, last = false;
    const Outcome outcome = run({.options = quorum_of_two(one.servers),
                                 .clocks = 6,
                                 .within = one.within,
                                 .stand =
                                     [&](int) {
                                       stands = true;
                                       await_event([&] { return last.load(); });
                                     },
                                 .before =
                                     [&](int worker, std::int64_t clock) {
                                       if (worker == 0 && clock >= 3) await_event([&] { return stands.load(); });
                                     },
                                 .updates = [&](std::int64_t clock) { last = last || clock == 5; },
                                 .over_messages = one.over_messages});
    EXPECT_EQ(outcome.ends, std::vector<std::string>(outcome.ends.size()));
    EXPECT_EQ(outcome.bits.losses.size(), 6U);
    EXPECT_TRUE(stands);
  }
}

TEST(StoppedWorker, LostWhileStoppedDelaysNobody) {
  for (const Case& one : all_cases()) {
    SCOPED_TRACE(describe(one));
    Beside beside(8);
    const Outcome outcome = run({.options = asynchronous(one.servers),
                                 .clocks = 12,
                                 .within = one.within,
                                 .stand =
                                     [&](int) {
                                       beside.stand();
                                       throw std::runtime_error("this worker ends");
                                     },
                                 .before = [&](int worker, std::int64_t clock) { beside.at(worker, clock); },
                                 .over_messages = one.over_messages});
    EXPECT_GE(beside.ahead(), 8);
    for (std::size_t rank = 0; rank + 1 < outcome.ends.size(); ++rank) EXPECT_EQ(outcome.ends[rank], "") << rank;
    EXPECT_EQ(outcome.ends.back(), "this worker ends");
    const std::int64_t pushed = one.within == Within::kPush ? 2 : 3;  // a partial push does not count
    EXPECT_EQ(last_push(2, outcome.bits.events), pushed - 1);
    EXPECT_EQ(std::ranges::count(outcome.bits.actions, Kind::kUpdate, &PushAction::kind), 2 * 12 + pushed);
  }
}

// A run in which one worker stays stopped until the servers have ended.
Outcome run_without_it(const AttachOptions& options, Within within) {
  std::atomic<bool> ended = false;
  return run({.options = options,
              .workers = 2,
              .within = within,
              .stops = [](int worker) { return worker == 1; },
              .stand = [&](int) { await_event([&] { return ended.load(); }); },
              .servers_ended = [&] { ended = true; },
              .timeout = milliseconds(2000)});
}

// The error names the worker.
TEST(StoppedWorker, NeededWorkerEndsRunAtTimeout) {
  const AttachOptions sync{.sync = {.servers = 1}};
  const AttachOptions stale{.sync = {.mode = SyncMode::kStale, .servers = 1, .staleness = 1}};
  for (const AttachOptions& options : {sync, stale}) {
    const Outcome push = run_without_it(options, Within::kPush);
    EXPECT_TRUE(says(push.ends[0], "rank 2: push of clock 2: it began to send a gradient, and has not continued"))
        << push.ends[0];
    const Outcome weights = run_without_it(options, Within::kWeights);
    EXPECT_TRUE(says(weights.ends[0],
                     "rank 2: push of clock 3: it has not continued to read the weights before it for 2000 ms"))
        << weights.ends[0];
  }
}

// Five workers read weights, each of another version. Servers hold four versions beside the newest. The other two
// workers pass clock 3 when all five have stopped.
struct FiveReaders {
  std::atomic<int> standing{0};
  std::atomic<bool> ended{false};
  StoppedRun story(int servers) {
    return {.options = asynchronous(servers),
            .workers = 7,
            .clocks = 8,
            .stops = [](int worker) { return worker < 5; },
            .before =
                [this](int worker, std::int64_t clock) {
                  if (worker >= 5 && clock == 3) await_event([this] { return standing.load() >= 5; });
                },
            .servers_ended = [this] { ended = true; }};
  }
};

TEST(StoppedWorker, UpdateWaitsForFreeVersion) {
  for (const int servers : {1, 2}) {
    for (const bool over_messages : {false, true}) {
      FiveReaders five;
      StoppedRun story = five.story(servers);
      story.over_messages = over_messages;
      story.stand = [&](int worker) {
        ++five.standing;
        await_event([&] { return five.standing.load() >= 5 + worker; });
        ++five.standing;  // the next worker continues
      };
      const Outcome outcome = run(story);
      EXPECT_EQ(outcome.ends, std::vector<std::string>(outcome.ends.size()));
      EXPECT_EQ(std::ranges::count(outcome.bits.actions, Kind::kUpdate, &PushAction::kind), 7 * 8);
    }
  }
}

// The error names one of the workers.
TEST(StoppedWorker, AllStoppedEndRunAtTimeout) {
  for (const int servers : {1, 2}) {
    FiveReaders five;
    StoppedRun story = five.story(servers);
    story.timeout = milliseconds(2000);
    story.stand = [&](int) {
      ++five.standing;
      await_event([&] { return five.ended.load(); });
    };
    const Outcome outcome = run(story);
    EXPECT_TRUE(says(outcome.ends[0], "workers read more old versions of the weights than servers have room for"))
        << outcome.ends[0];
    EXPECT_TRUE(says(outcome.ends[0], fmt::format("rank {}: weights", servers))) << outcome.ends[0];
  }
}

}  // namespace
}  // namespace zero
