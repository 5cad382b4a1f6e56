// The order of the servers' actions, and the places of versions that workers read at the same time.
#include "zero/plan/served/push_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "zero/plan/served/version_places.h"

#include "tests/support/tier.h"

namespace zero {
namespace {

using Kind = PushAction::Kind;

// All actions that are due now, in words: "update 0 1 of clock 3", "answer 1: clock 4, version 3".
std::vector<std::string> todo(PushOrder& order) {
  std::vector<std::string> words;
  while (const auto action = order.next()) {
    std::string workers;
    for (const int worker : action->workers) workers += fmt::format("{}{}", workers.empty() ? "" : " ", worker);
    switch (action->kind) {
      case Kind::kUpdate:
        words.push_back(fmt::format("update {} of clock {}, age {}", workers, action->clock, action->age));
        break;
      case Kind::kDrop:
        words.push_back(fmt::format("drop {} of clock {}", workers, action->clock));
        break;
      case Kind::kAnswer:
        words.push_back(fmt::format("answer {}: clock {}, version {}", workers, action->clock, action->version));
        break;
    }
  }
  return words;
}

using Words = std::vector<std::string>;

TEST(PushOrder, ClockUpdatesAfterAllPushes) {
  PushOrder order({.servers = 1}, 2);
  EXPECT_EQ(todo(order), (Words{"answer 0: clock 0, version 0", "answer 1: clock 0, version 0"}));
  order.pushed(1, 0);
  EXPECT_EQ(todo(order), Words{});
  order.pushed(0, 0);
  EXPECT_EQ(todo(order),
            (Words{"update 0 1 of clock 0, age 0", "answer 0: clock 1, version 1", "answer 1: clock 1, version 1"}));
}

TEST(PushOrder, StaleWorkerReadsItsExactVersion) {
  PushOrder order({.mode = SyncMode::kStale, .servers = 1, .staleness = 1}, 2);
  todo(order);
  order.pushed(0, 0);
  EXPECT_EQ(todo(order), (Words{"answer 0: clock 1, version 0"}));
  order.pushed(0, 1);
  EXPECT_EQ(todo(order), Words{}) << "clock 2 needs version 1";
  order.pushed(1, 0);
  EXPECT_EQ(todo(order),
            (Words{"update 0 1 of clock 0, age 0", "answer 0: clock 2, version 1", "answer 1: clock 1, version 0"}))
      << "version 1 is there, and worker 1 does not get it";
  order.pushed(1, 1);
  EXPECT_EQ(todo(order), (Words{"update 0 1 of clock 1, age 1", "answer 1: clock 2, version 1"}));
}

TEST(PushOrder, ResumedRunReadsExistingVersions) {
  PushOrder kept({.mode = SyncMode::kStale, .servers = 1, .staleness = 2}, 1, 10, 8);
  EXPECT_EQ(todo(kept), (Words{"answer 0: clock 10, version 8"}));
  PushOrder none({.mode = SyncMode::kStale, .servers = 1, .staleness = 2}, 1, 10, 10);
  EXPECT_EQ(todo(none), (Words{"answer 0: clock 10, version 10"}));
  none.pushed(0, 10);
  EXPECT_EQ(todo(none), (Words{"update 0 of clock 10, age 0", "answer 0: clock 11, version 10"}));
}

TEST(PushOrder, StopsAtGivenClock) {
  PushOrder order({.mode = SyncMode::kStale, .servers = 1, .staleness = 1}, 1);
  todo(order);
  order.pushed(0, 0);
  EXPECT_EQ(order.next(0), (PushAction{.kind = Kind::kAnswer, .workers = {0}, .clock = 1, .version = 0}));
  EXPECT_EQ(order.next(0), std::nullopt);
  EXPECT_EQ(order.next(1)->kind, Kind::kUpdate);
}

TEST(PushOrder, AsynchronousPushAppliesOnArrival) {
  PushOrder order({.mode = SyncMode::kAsync, .servers = 1, .staleness = 1}, 2);
  todo(order);
  order.pushed(1, 0);
  EXPECT_EQ(todo(order), (Words{"update 1 of clock 0, age 0", "answer 1: clock 1, version 1"}));
  order.pushed(1, 1);
  EXPECT_EQ(todo(order), (Words{"update 1 of clock 1, age 0"})) << "worker 0 has not done clock 0";
  EXPECT_EQ(order.late(), std::vector<int>{0});
  order.pushed(0, 0);
  EXPECT_EQ(todo(order),
            (Words{"update 0 of clock 0, age 2", "answer 0: clock 1, version 3", "answer 1: clock 2, version 3"}));
}

TEST(PushOrder, LostWorkerDelaysNobody) {
  PushOrder order({.mode = SyncMode::kAsync, .servers = 1}, 2);
  todo(order);
  order.pushed(1, 0);
  EXPECT_EQ(todo(order), (Words{"update 1 of clock 0, age 0"}));
  order.left(0);
  EXPECT_EQ(todo(order), (Words{"answer 1: clock 1, version 1"}));
  EXPECT_EQ(order.num_clocks(), 1);
  EXPECT_TRUE(order.can_go_on());
}

TEST(PushOrder, ClockNeedsLostWorkersPush) {
  PushOrder order({.mode = SyncMode::kStale, .servers = 1}, 2);
  todo(order);
  order.left(1);
  EXPECT_FALSE(order.can_go_on());
  EXPECT_FALSE(order.is_stuck()) << "worker 0 may also leave";
  order.pushed(0, 0);
  EXPECT_EQ(todo(order), Words{});
  EXPECT_TRUE(order.is_stuck());
}

TEST(PushOrder, DepartedWorkersPushCounts) {
  PushOrder order({.servers = 1}, 2);
  todo(order);
  order.pushed(0, 0);
  order.left(0);
  order.pushed(1, 0);
  EXPECT_EQ(todo(order), (Words{"update 0 1 of clock 0, age 0", "answer 1: clock 1, version 1"}));
}

TEST(PushOrder, QuorumContinuesWithoutLastWorker) {
  PushOrder order({.servers = 1, .quorum = 2}, 3);
  todo(order);
  order.pushed(2, 0);
  order.pushed(0, 0);
  EXPECT_EQ(todo(order),
            (Words{"update 0 2 of clock 0, age 0", "answer 0: clock 1, version 1", "answer 2: clock 1, version 1"}));
  order.pushed(0, 1);
  order.pushed(2, 1);
  todo(order);
  order.pushed(1, 0);
  EXPECT_EQ(todo(order), (Words{"drop 1 of clock 0", "answer 1: clock 2, version 2"}));
}

TEST(PushOrder, ReplacementContinuesPredecessorsClock) {
  PushOrder order({.mode = SyncMode::kAsync, .servers = 1, .staleness = 2}, 2);
  todo(order);
  order.pushed(0, 0);
  order.pushed(1, 0);
  todo(order);
  order.pushed(1, 1);
  order.left(1);
  todo(order);
  order.returned(1);
  EXPECT_EQ(order.num_clocks(), 1);
  EXPECT_EQ(todo(order), (Words{"answer 1: clock 2, version 3"})) << "its push of clock 1 counts";
}

TEST(PushOrder, LateReplacementSkipsDoneClocks) {
  PushOrder order({.mode = SyncMode::kAsync, .servers = 1}, 2);
  todo(order);
  order.left(0);
  for (int clock = 0; clock < 3; ++clock) {
    order.pushed(1, clock);
    todo(order);
  }
  EXPECT_EQ(order.num_clocks(), 3);
  order.returned(0);
  EXPECT_EQ(order.num_clocks(), 3);
  EXPECT_EQ(todo(order), (Words{"answer 0: clock 3, version 3"}));
  order.pushed(1, 3);
  EXPECT_EQ(todo(order), (Words{"update 1 of clock 3, age 0"})) << "worker 0 is waited for again";
}

TEST(PushOrder, AllLostRepeatNoClock) {
  PushOrder order({.mode = SyncMode::kAsync, .servers = 1, .staleness = 4}, 2);
  todo(order);
  for (int clock = 0; clock < 3; ++clock) {
    order.pushed(1, clock);
    todo(order);
  }
  order.left(0);
  EXPECT_EQ(order.num_clocks(), 3);
  order.left(1);
  order.returned(0);
  EXPECT_EQ(todo(order), (Words{"answer 0: clock 3, version 3"}));
  EXPECT_EQ(order.num_clocks(), 3);
}

// A replacement does not repeat the clocks that the lost worker finished.
TEST(PushOrder, LastLostWorkersClocksAreKept) {
  PushOrder order({.mode = SyncMode::kAsync, .servers = 1}, 2);
  todo(order);
  order.left(0);
  order.pushed(1, 0);
  todo(order);
  EXPECT_EQ(order.num_clocks(), 1);
  order.left(1);
  order.returned(0);
  EXPECT_EQ(todo(order), (Words{"answer 0: clock 1, version 1"}));
}

TEST(PushOrder, ReplacementJoinsQuorumsNewestClock) {
  PushOrder order({.servers = 1, .quorum = 1}, 2);
  todo(order);
  order.left(1);
  order.pushed(0, 0);
  todo(order);
  order.returned(1);
  EXPECT_EQ(todo(order), (Words{"answer 1: clock 1, version 1"}));
}

TEST(PushOrder, ReplacementRevivesSmallQuorum) {
  PushOrder order({.servers = 1, .quorum = 2}, 2);
  todo(order);
  order.left(1);
  order.pushed(0, 0);
  EXPECT_EQ(todo(order), Words{});
  EXPECT_TRUE(order.is_stuck());
  order.returned(1);
  EXPECT_EQ(todo(order), (Words{"answer 1: clock 0, version 0"}));
  order.pushed(1, 0);
  EXPECT_EQ(todo(order).front(), "update 0 1 of clock 0, age 0");
}

// A run of workers of random speeds. Some die, some return, and any may stall while it reads weights or in the middle
// of its push. Every check is a promise of the headers; none depends on the implementation.
class Exploration {
 public:
  explicit Exploration(std::uint64_t seed) : random_(seed) {
    plan_.servers = 1;
    plan_.mode = std::array{SyncMode::kSync, SyncMode::kStale, SyncMode::kAsync}[draw(3)];
    workers_ = 1 + static_cast<int>(draw(8));
    if (plan_.mode != SyncMode::kSync) plan_.staleness = static_cast<int>(draw(5));
    if (plan_.mode == SyncMode::kSync && draw(2) == 0) plan_.quorum = 1 + static_cast<int>(draw(workers_));
    last_clock_ = 1 + static_cast<std::int64_t>(draw(12));
    may_die_ = draw(2) == 0;
    num_returns_ = is_async() || plan_.quorum > 0 ? static_cast<int>(draw(6)) : 0;
    for (int worker = 0; worker < workers_; ++worker) speeds_.push_back(1U << draw(5));
    stand_still_ = draw(2) == 0;
    for (std::uint64_t servers = 1 + draw(2); servers > 0; --servers) places_.emplace_back(plan_, workers_).keep(0);
  }

  // The first problem; empty: none.
  std::string run() {
    PushOrder order(plan_, workers_);
    carry_out(order);
    while (problem_.empty()) {
      const bool goes_on = !order.is_over() && order.can_go_on();
      if (!lost_.empty() && num_returns_ > 0 && (!goes_on || draw(20) == 0)) {
        returns(order);
        continue;
      }
      if (!goes_on) break;
      const int worker = one_that_computes();
      if (worker < 0) {
        say("nobody computes, and some are there");
        break;
      }
      happens(order, worker);
      carry_out(order);
    }
    if (problem_.empty() && order.can_go_on() && !pushed_.empty()) say("a push is lost");
    return problem_;
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  bool is_async() const { return plan_.mode == SyncMode::kAsync; }
  void say(const std::string& problem) {
    if (problem_.empty())
      problem_ = fmt::format("{}, staleness {}, quorum {}, {} workers: {}", name_of(plan_.mode), plan_.staleness,
                             plan_.quorum, workers_, problem);
  }

  int one_that_computes() {
    std::uint64_t all = 0;
    std::vector<int> going;
    for (auto& [worker, begun] : computing_) {
      if (begun.stands_still > 0 && --begun.stands_still > 0) continue;
      going.push_back(worker);
      all += speeds_[static_cast<std::size_t>(worker)];
    }
    if (all == 0) return computing_.empty() ? -1 : computing_.begin()->first;
    std::uint64_t at = draw(all);
    for (const int worker : going) {
      const std::uint64_t speed = speeds_[static_cast<std::size_t>(worker)];
      if (at < speed) return worker;
      at -= speed;
    }
    return -1;
  }

  void unpin(int worker) {
    for (VersionPlaces& places : places_) places.unpin(worker);
  }

  // The worker reads on, pushes another part, or dies.
  void happens(PushOrder& order, int worker) {
    Begun& going = computing_.at(worker);
    if (may_die_ && draw(num_returns_ > 0 ? 30 : 100) == 0) {
      computing_.erase(worker);
      clocks_.erase(worker);
      lost_.push_back(worker);
      unpin(worker);
      return order.left(worker);
    }
    if (stand_still_ && draw(10) == 0) going.stands_still = 1 + static_cast<int>(draw(60));
    if (!going.reads.empty()) return read_on(worker);
    if (going.parts_left == kParts) unpin(worker);
    if (--going.parts_left > 0) return;
    const Begun begun = going;
    computing_.erase(worker);
    if (!ever_pushed_.insert({worker, begun.clock}).second) say("a clock is done twice by one worker");
    pushed_[{worker, begun.clock}] = begun.version;
    clocks_[worker] = begun.clock + 1;
    order.pushed(worker, begun.clock);
  }

  void read_on(int worker) {
    std::map<std::size_t, int>& reads = computing_.at(worker).reads;
    const auto read = std::next(reads.begin(), static_cast<std::ptrdiff_t>(draw(reads.size())));
    places_[read->first].unpin(worker);
    reads.erase(read);
  }

  // Keeps the version of an update on each server. If more workers read than a server has places, some of them finish
  // reading first.
  void keep(std::int64_t version) {
    for (std::size_t server = 0; server < places_.size(); ++server) {
      VersionPlaces& places = places_[server];
      while (!places.has_room()) {
        const std::vector<int> readers = places.readers();
        if (std::ssize(readers) <= plan_.num_older_versions(workers_)) return say("an update waits for few readers");
        const int reader = readers[draw(readers.size())];
        computing_.at(reader).reads.erase(server);
        places.unpin(reader);
      }
      const int place = places.keep(version);
      for (const auto& [worker, begun] : computing_) {
        const auto read = begun.reads.find(server);
        if (read != begun.reads.end() && read->second == place) say("a version changes while a worker reads it");
      }
    }
  }

  void returns(PushOrder& order) {
    const std::size_t which = draw(lost_.size());
    const int worker = lost_[which];
    lost_.erase(lost_.begin() + static_cast<std::ptrdiff_t>(which));
    --num_returns_;
    order.returned(worker);
    clocks_[worker] = order.clock(worker);
    carry_out(order);
  }

  void carry_out(PushOrder& order) {
    if (!order.is_over()) {
      if (order.num_clocks() < num_clocks_) say("a step of the run is done again");
      num_clocks_ = order.num_clocks();
    }
    while (const auto action = order.next()) {
      if (!problem_.empty()) return;
      action->kind == Kind::kAnswer ? answer(order, *action) : use(*action);
    }
  }

  void use(const PushAction& action) {
    std::int64_t age = 0;
    for (const int worker : action.workers) {
      const auto push = pushed_.find({worker, action.clock});
      if (push == pushed_.end()) return say("a gradient is used that was not pushed, or is used twice");
      age = std::max(age, updates_ - push->second);
      pushed_.erase(push);
    }
    if (action.kind == Kind::kDrop) {
      if (plan_.quorum == 0) say("a push is dropped without a quorum");
      if (action.clock >= updates_) say("a push is dropped that was not late");
      return;
    }
    if (age != action.age) say("the age is not that of the weights");
    if (action.version != updates_) say("a version is left out");
    if (!std::ranges::is_sorted(action.workers)) say("the sum is not in the order of the workers");
    const auto needed = static_cast<std::size_t>(is_async() ? 1 : plan_.quorum > 0 ? plan_.quorum : workers_);
    if (action.workers.size() != needed) say("an update of too many or too few");
    if (!is_async() && action.clock != updates_) say("clocks are not in order");
    const std::int64_t most = is_async() ? (workers_ - 1) * (2 * plan_.staleness + 1) : plan_.staleness;
    if (age > most) say(fmt::format("an age of {}", age));
    if (!is_async() && age != std::min<std::int64_t>(plan_.staleness, updates_)) say("a read that is not exact");
    ++updates_;
    keep(updates_);
  }

  void answer(PushOrder& order, const PushAction& action) {
    const int worker = action.workers.front();
    if (computing_.contains(worker)) return say("a worker is answered while it computes");
    if (action.version > updates_ || action.version <= updates_ - plan_.num_versions() || action.version < 0)
      say(fmt::format("version {} of {}", action.version, updates_));
    if (action.clock < clocks_[worker]) say("a clock goes back");
    clocks_[worker] = action.clock;
    std::int64_t slowest = std::numeric_limits<std::int64_t>::max();
    for (const auto& [other, clock] : clocks_) slowest = std::min(slowest, clock);
    if (is_async() && static_cast<int>(clocks_.size()) == num_here(order) && slowest < action.clock - plan_.staleness)
      say("the slowest is too far behind");
    if (action.clock < last_clock_) {
      Begun& begun = computing_[worker] = {.clock = action.clock, .version = action.version};
      for (std::size_t server = 0; server < places_.size(); ++server) {
        begun.reads[server] = places_[server].place_of(action.version);
        if (begun.reads[server] < 0) return say("a worker is to read a version that is not there");
        places_[server].pin(worker, action.version);
      }
    } else {
      clocks_.erase(worker);
      order.left(worker);
    }
  }

  int num_here(const PushOrder& order) const {
    int here = 0;
    for (int worker = 0; worker < workers_; ++worker) here += order.is_here(worker) ? 1 : 0;
    return here;
  }

  static constexpr int kParts = 2;  // of a push
  struct Begun {
    std::int64_t clock = 0, version = 0;
    std::map<std::size_t, int> reads{};  // server that it still reads from: the place there
    int parts_left = kParts;
    int stands_still = 0;  // number of turns
  };
  std::mt19937_64 random_;
  SyncPlan plan_;
  int workers_ = 1;
  std::int64_t last_clock_ = 1;
  bool may_die_ = false, stand_still_ = false;
  std::vector<VersionPlaces> places_;  // by server
  int num_returns_ = 0;                // returns still to come
  std::vector<int> lost_;
  std::set<std::pair<int, std::int64_t>> ever_pushed_;
  std::int64_t num_clocks_ = 0;
  std::vector<std::uint64_t> speeds_;
  std::map<int, Begun> computing_;
  std::map<int, std::int64_t> clocks_;                           // of workers that are present
  std::map<std::pair<int, std::int64_t>, std::int64_t> pushed_;  // (worker, clock): version of its weights
  std::int64_t updates_ = 0;
  std::string problem_;
};

TEST(PushOrder, KeepsItsPromisesInEveryInterleaving) {
  const int trials = num_trials("ZERO_INTERLEAVINGS", 20'000, 200'000);
  for (int seed = 0; seed < trials; ++seed) {
    const std::string problem = Exploration(static_cast<std::uint64_t>(seed)).run();
    ASSERT_EQ(problem, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace zero
