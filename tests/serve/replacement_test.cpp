// Workers of a served run that end and come back, over shared memory and over messages. Each process is a thread here.
#include <atomic>
#include <bit>
#include <chrono>
#include <exception>
#include <future>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "zero/comm/board/shared_memory.h"
#include "zero/comm/replacements.h"

#include "tests/comm/fake_link.h"
#include "tests/serve/served_run.h"
#include "tests/support/message_of.h"
#include "tests/support/tier.h"

namespace zero {
namespace {

using std::chrono::milliseconds;

// The clocks before which a worker's processes end, in order. The next process stays alive.
using Deaths = std::map<int, std::vector<std::int64_t>>;

enum class Over { kSharedMemory, kMessages };

struct Story {
  Over over = Over::kSharedMemory;
  AttachOptions options;
  int workers = 2;
  Deaths deaths{};
  TrainedClocks run{};
  bool comes_back = true;
  milliseconds timeout{60'000};
  std::function<void(FakeNetwork&)> prepare = [](FakeNetwork&) {};
  // Changes `run` for process `life` of a worker, counted from 0.
  std::function<TrainedClocks(int worker, int life, TrainedClocks run)> life_of = [](int, int, TrainedClocks run) {
    return run;
  };
  // Called with the end of a worker's process. Returns whether another process follows.
  std::function<bool(int worker, int life, const std::string& end)> ended = [](int, int, const std::string& end) {
    return end == "killed";
  };
};

struct Told {
  TrainedBits bits;
  std::map<int, std::vector<std::string>> ends;  // ends of each rank's processes
};

TrainedClocks with_death(const Story& story, int worker, int life) {
  TrainedClocks run = story.life_of(worker, life, story.run);
  const auto deaths = story.deaths.find(worker);
  if (deaths == story.deaths.end() || life >= std::ssize(deaths->second)) return run;
  const std::int64_t last = deaths->second[static_cast<std::size_t>(life)];
  run.before = [last, before = run.before](int index, std::int64_t clock) {
    if (clock >= last) throw std::runtime_error("killed");
    before(index, clock);
  };
  return run;
}

// Silence: a process that ends by an exception sends no message about it.
class Silence {
 public:
  Silence(FakeNetwork& network, int address) : network_(network), address_(address) {}
  ~Silence() {
    if (std::uncaught_exceptions() > before_) network_.lose(address_);
  }
  Silence(const Silence&) = delete;
  Silence& operator=(const Silence&) = delete;

 private:
  FakeNetwork& network_;
  int address_;
  int before_ = std::uncaught_exceptions();
};

Told tell(const Story& story) {
  static std::atomic<int> stories = 0;
  const SyncPlan& sync = story.options.sync;
  const int world = sync.servers + story.workers;
  const std::string name = fmt::format("replacement-{}-{}", getpid(), stories++);
  int most = 0;
  for (const auto& [worker, deaths] : story.deaths) most += static_cast<int>(deaths.size());
  most = std::max(most, 1);
  Told told;
  FakeNetwork network;
  story.prepare(network);
  const auto connect = [&](int rank, int life) -> std::unique_ptr<Communicator> {
    if (story.over == Over::kMessages)
      return std::make_unique<MessageCommunicator>(std::make_unique<FakeLink>(network, rank, life, most), "fake", rank,
                                                   world, story.timeout);
    return connect_shared_memory({.rank = rank,
                                  .world = world,
                                  .local_rank = rank,
                                  .local_world = world,
                                  .run_id = name,
                                  .replacement = life,
                                  .most_replacements = most},
                                 story.timeout);
  };
  const auto live = [&](int rank, int life) -> std::string {
    try {
      const auto comm = connect(rank, life);
      const Silence silence(network, FakeNetwork::address_of(rank, life));
      if (sync.is_server(rank)) {
        serve(*comm, story.options, small_specs(), story.run, told.bits);
      } else {
        comm->arrivals()->may_be_lost();
        work(*comm, story.options, small_specs(), with_death(story, sync.worker_of(rank), life));
      }
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  };
  for (int rank = 0; rank < world; ++rank) told.ends[rank] = {};
  std::atomic<bool> over = false;  // then the launcher starts no process
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < world; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::string>& ends = told.ends.at(rank);
      for (int life = 0; !over; ++life) {
        ends.push_back(live(rank, life));
        if (rank == 0) over = true;
        if (sync.is_server(rank) || !story.comes_back || !story.ended(sync.worker_of(rank), life, ends.back())) return;
      }
    });
  }
  threads.clear();
  return told;
}

AttachOptions asynchronous(int servers, int staleness, AttachOptions options = {}) {
  options.sync = {.mode = SyncMode::kAsync, .servers = servers, .staleness = staleness};
  return options;
}

// Expects that every process ended as planned.
void expect_ends(const Told& told, const Story& story) {
  for (const auto& [rank, ends] : told.ends) {
    for (std::size_t life = 0; life < ends.size(); ++life) {
      const bool is_last = life + 1 == ends.size();
      EXPECT_EQ(ends[life], is_last ? "" : "killed") << "rank " << rank << ", process " << life;
    }
    if (story.options.sync.is_server(rank)) continue;
    const auto deaths = story.deaths.find(story.options.sync.worker_of(rank));
    EXPECT_EQ(ends.size(), deaths == story.deaths.end() ? 1U : 1 + deaths->second.size()) << "rank " << rank;
  }
}

// A worker pushes each clock at most once. After a return, it begins with the clock of its return, which is never an
// earlier clock. With a quorum, a late worker skips clocks.
void expect_turns_in_order(const std::deque<PushEvent>& events, bool has_quorum = false) {
  std::map<int, std::int64_t> next;
  std::map<int, bool> here;
  for (const PushEvent& event : events) {
    std::int64_t& clock = next[event.worker];
    bool& is_here = here.try_emplace(event.worker, true).first->second;
    if (event.returns) {
      EXPECT_FALSE(is_here) << "worker " << event.worker;
      EXPECT_GE(event.clock, clock);
      clock = event.clock;
      is_here = true;
    } else if (event.leaves) {
      EXPECT_TRUE(is_here) << "worker " << event.worker;
      is_here = false;
    } else {
      EXPECT_TRUE(is_here) << "worker " << event.worker;
      if (!has_quorum) {
        EXPECT_EQ(event.clock, clock) << "worker " << event.worker;
      }
      EXPECT_GE(event.clock, clock) << "worker " << event.worker;
      clock = event.clock + 1;
    }
  }
}

class Replacement : public ::testing::TestWithParam<Over> {};

INSTANTIATE_TEST_SUITE_P(Over, Replacement, ::testing::Values(Over::kSharedMemory, Over::kMessages),
                         [](const auto& over) { return over.param == Over::kMessages ? "Messages" : "SharedMemory"; });

TEST_P(Replacement, OnlyWorkersReplacementKeepsBits) {
  const TrainedClocks run{.clocks = 6};
  const AttachOptions clipped{.clip = 0.5};
  const TrainedBits alone = plain_run(clipped, 1, small_specs(), run);
  for (const int servers : {1, 2}) {
    Story story{.over = GetParam(),
                .options = asynchronous(servers, 1, clipped),
                .workers = 1,
                .deaths = {{0, {2, 2, 4}}},
                .run = run};
    if (servers == 2) story.options.shards = Cut::kWeighted;
    if (servers == 2) story.options.shard_weights = {1, 5};
    const Told told = tell(story);
    expect_ends(told, story);
    EXPECT_EQ(told.bits.weights, alone.weights) << servers;
    EXPECT_EQ(told.bits.losses, alone.losses) << servers;
    EXPECT_EQ(told.bits.norms, alone.norms) << servers;
    EXPECT_EQ(told.bits.replaced, 3) << servers;
    expect_turns_in_order(told.bits.events);
  }
}

// The replacement dies before a server has met it.
TEST(ReplacementOverMessages, EarlyDeathIsReplaced) {
  const TrainedClocks run{.clocks = 6};
  const TrainedBits alone = plain_run({}, 1, small_specs(), run);
  for (const auto& [servers, peer] : {std::pair{1, 0}, {2, 0}, {2, 1}}) {
    // The second process is lost before its first clock.
    Story story{.over = Over::kMessages,
                .options = asynchronous(servers, 1),
                .workers = 1,
                .deaths = {{0, {2, 99}}},
                .run = run};
    story.prepare = [servers = servers, peer = peer](FakeNetwork& network) {
      network.lose_at_meeting(FakeNetwork::address_of(servers, 1), peer);
    };
    const Told told = tell(story);
    expect_ends(told, story);
    EXPECT_EQ(told.bits.weights, alone.weights) << servers << " servers, lost to " << peer;
    EXPECT_EQ(told.bits.losses, alone.losses) << servers << " servers, lost to " << peer;
    expect_turns_in_order(told.bits.events);
  }
}

// Worker 1 ends before clock 2. It comes back when worker 0 is in clock 5 and has not pushed that clock.
Told tell_of_return_in_clock_five(Over over, const AttachOptions& options, int workers) {
  std::promise<void> far, back;
  std::shared_future<void> is_far = far.get_future().share(), is_back = back.get_future().share();
  Story story{.over = over, .options = options, .workers = workers, .deaths = {{1, {2}}}, .run = {.clocks = 8}};
  story.life_of = [&](int worker, int life, TrainedClocks run) {
    run.before = [&, worker, life, first = true](int, std::int64_t clock) mutable {
      if (worker == 0 && clock == 5) {
        far.set_value();
        is_back.wait();
      }
      if (worker == 1 && life == 1 && std::exchange(first, false)) back.set_value();
    };
    return run;
  };
  story.ended = [&](int, int, const std::string& end) {
    if (end == "killed") is_far.wait();
    return end == "killed";
  };
  const Told told = tell(story);
  expect_ends(told, story);
  expect_turns_in_order(told.bits.events, options.sync.quorum > 0);
  return told;
}

TEST_P(Replacement, ContinuesWithTheOthersClock) {
  AttachOptions quorum;
  quorum.sync = {.servers = 2, .quorum = 2};
  for (const auto& [options, workers] : {std::pair{asynchronous(1, 100), 2}, {quorum, 3}}) {
    const Told told = tell_of_return_in_clock_five(GetParam(), options, workers);
    const auto returned = std::ranges::find(told.bits.events, true, &PushEvent::returns);
    ASSERT_NE(returned, told.bits.events.end());
    EXPECT_EQ(*returned, (PushEvent{.worker = 1, .clock = 5, .returns = true})) << name_of(options.sync.mode);
    EXPECT_EQ(told.bits.losses.size(), 8U);
    EXPECT_EQ(told.bits.replaced, 1);
  }
}

// Random delays of workers, by seed.
TrainedClocks jittered(TrainedClocks run, std::uint64_t seed) {
  run.before = [seed](int worker, std::int64_t clock) {
    const auto turns = std::mt19937_64(seed * 1000 + static_cast<std::uint64_t>(worker * 100 + clock))() % 200;
    for (std::uint64_t turn = 0; turn < turns; ++turn) std::this_thread::yield();
  };
  return run;
}

// The losses as bits. If a clock ended because a worker left, it has no update, and its loss is NaN.
std::vector<std::uint64_t> bits_of(const std::vector<double>& losses) {
  std::vector<std::uint64_t> bits;
  for (const double loss : losses) bits.push_back(std::bit_cast<std::uint64_t>(loss));
  return bits;
}

// The run is replayed over the other transport, to the bit.
TEST_P(Replacement, RunWithReplacementsReplaysElsewhere) {
  const int trials = num_trials("ZERO_REPLACED_REPLAYS", 6, 24);
  std::int64_t replaced = 0;
  for (int trial = 0; trial < trials && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE(trial);
    const auto seed = static_cast<std::uint64_t>(trial);
    std::mt19937_64 random(seed);
    AttachOptions options = asynchronous(1 + trial % 2, trial % 3, {.clip = 0.5});
    options.sync.compensation = trial % 4 == 3 ? 1 : 0;
    Story story{.over = GetParam(), .options = options, .workers = 3, .run = jittered({.clocks = 6}, seed)};
    // Deaths begin at clock 1. Over messages, all servers know by then that a worker may be lost.
    for (int deaths = 0; deaths < 3; ++deaths)
      story.deaths[static_cast<int>(random() % 3)].push_back(static_cast<std::int64_t>(1 + random() % 5));
    const Told recorded = tell(story);
    expect_turns_in_order(recorded.bits.events);
    replaced += recorded.bits.replaced;
    Story again{.over = GetParam() == Over::kMessages ? Over::kSharedMemory : Over::kMessages,
                .options = options,
                .workers = 3,
                .run = jittered({.clocks = 6}, seed + 1000)};
    again.run.replayed = recorded.bits.events;
    const Told replayed = tell(again);
    expect_ends(replayed, again);
    EXPECT_EQ(replayed.bits.events, recorded.bits.events);
    EXPECT_EQ(replayed.bits.weights, recorded.bits.weights);
    EXPECT_EQ(bits_of(replayed.bits.losses), bits_of(recorded.bits.losses));
  }
  EXPECT_GE(replaced, trials) << "the test must replace workers";
}

TEST_P(Replacement, OnlyReplacementRefusesOtherConfiguration) {
  Story story{.over = GetParam(),
              .options = asynchronous(1, 100),
              .deaths = {{1, {2}}},
              .run = {.clocks = 5, .configuration = 7}};
  std::promise<void> refused;
  std::shared_future<void> is_refused = refused.get_future().share();
  story.life_of = [&](int worker, int life, TrainedClocks run) {
    if (life > 0) run.configuration = 8;
    if (worker == 0) run.before = [&](int, std::int64_t clock) { clock == 4 ? is_refused.wait() : void(); };
    return run;
  };
  story.ended = [&](int, int life, const std::string& end) {
    if (life == 1) refused.set_value();
    return end == "killed";
  };
  const Told told = tell(story);
  EXPECT_EQ(told.ends.at(0), std::vector<std::string>{""});
  EXPECT_EQ(told.ends.at(1), std::vector<std::string>{""});
  ASSERT_EQ(told.ends.at(2).size(), 2U);
  EXPECT_TRUE(says(told.ends.at(2)[1], "configuration = rank 2: it was restarted with a configuration that differs"))
      << told.ends.at(2)[1];
  EXPECT_EQ(told.bits.losses.size(), 5U);
}

TEST_P(Replacement, FinishedWorkerLearnsRunIsOver) {
  Story story{.over = GetParam(), .options = asynchronous(2, 100), .run = {.clocks = 4}};
  std::promise<void> over;
  std::shared_future<void> is_over = over.get_future().share();
  story.life_of = [&](int worker, int life, TrainedClocks run) {
    if (worker == 0) run.before = [&](int, std::int64_t clock) { clock == 3 ? is_over.wait() : void(); };
    if (life > 0) run.before = [](int, std::int64_t) { throw std::runtime_error("it is to compute nothing"); };
    return run;
  };
  story.ended = [&](int worker, int life, const std::string&) {
    if (worker == 1 && life == 1) over.set_value();
    return worker == 1 && life == 0;  // the process fails after its last push
  };
  const Told told = tell(story);
  EXPECT_EQ(told.ends.at(3), (std::vector<std::string>{"", ""}));
  EXPECT_EQ(told.ends.at(0), std::vector<std::string>{""});
}

TEST_P(Replacement, MissingReplacementEndsRunAtTimeout) {
  const Story story{.over = GetParam(),
                    .options = asynchronous(1, 0),
                    .workers = 1,
                    .deaths = {{0, {2}}},
                    .run = {.clocks = 5},
                    .comes_back = false,
                    .timeout = milliseconds(2000)};
  const auto begin = std::chrono::steady_clock::now();
  const Told told = tell(story);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(2000))
      << "servers wait for a replacement until the timeout";
  EXPECT_EQ(told.ends.at(0), std::vector<std::string>{""});
  EXPECT_EQ(told.bits.losses.size(), 3U) << "the third clock has no push";
}

}  // namespace
}  // namespace zero
