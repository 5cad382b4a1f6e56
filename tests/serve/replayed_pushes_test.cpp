#include "zero/serve/replayed_pushes.h"

#include <string>

#include <gtest/gtest.h>

#include "zero/base/error/error.h"

#include "tests/support/message_of.h"

namespace zero {
namespace {

constexpr SyncPlan kPlan{.mode = SyncMode::kAsync, .servers = 1, .staleness = 1};

void answer_all(PushOrder& order) {
  while (order.next()) {
  }
}

// The error with which the next event of two workers is refused.
std::string refusal(const PushOrder& order, const PushEvent& event) {
  return message_of<ConfigError>([&] { ReplayedPushes({event}, 2).next(order); });
}

// The order is kept while the run is like the recorded run.
TEST(ReplayedPushes, KeepRecordedOrder) {
  const std::deque<PushEvent> events{{.worker = 1, .clock = 0},
                                     {.worker = 0, .clock = 0, .leaves = true},
                                     {.worker = 1, .clock = 1},
                                     {.worker = 0, .clock = 2, .returns = true}};
  PushOrder order(kPlan, 2);
  ReplayedPushes replayed(events, 2);
  for (const PushEvent& recorded : events) {
    answer_all(order);
    const PushEvent event = replayed.next(order);
    EXPECT_EQ(event, recorded);
    if (event.returns) order.returned(event.worker);
    replayed.require_clock(event, order.clock(event.worker));
    if (event.leaves) order.left(event.worker);
    if (!event.leaves && !event.returns) order.pushed(event.worker, event.clock);
  }
}

// A worker may return in a later event.
TEST(ReplayedPushes, KnowFutureReturns) {
  PushOrder order(kPlan, 2);
  ReplayedPushes replayed({{.worker = 1, .clock = 0, .leaves = true}, {.worker = 1, .clock = 0, .returns = true}}, 2);
  EXPECT_TRUE(replayed.somebody_returns());
  EXPECT_TRUE(replayed.returns(1));
  EXPECT_FALSE(replayed.returns(0));
  order.left(replayed.next(order).worker);
  EXPECT_TRUE(replayed.returns(1));
  replayed.next(order);
  EXPECT_FALSE(replayed.somebody_returns());
}

TEST(ReplayedPushes, OfAnotherRunAreRefused) {
  PushOrder order(kPlan, 2);
  EXPECT_TRUE(says(refusal(order, {.worker = 0, .clock = 0}), "--replay = worker 0, clock 0: this run has reached"))
      << "not answered";
  answer_all(order);
  for (const int stranger : {-1, 2}) EXPECT_TRUE(says(refusal(order, {.worker = stranger}), "a different event"));
  EXPECT_TRUE(
      says(refusal(order, {.worker = 1, .clock = 3, .returns = true}), "--replay = worker 1 returns to clock 3: "))
      << "the worker has not left";
  order.left(1);
  EXPECT_TRUE(says(refusal(order, {.worker = 1}), "a different event")) << "the worker has left";
  EXPECT_TRUE(says(refusal(order, {.worker = 1, .leaves = true}), "a different event")) << "the worker has left";
}

TEST(ReplayedPushes, RefuseWorkerInAnotherClock) {
  const ReplayedPushes replayed({}, 2);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { replayed.require_clock({.worker = 1, .clock = 4}, 5); }),
                   "--replay = worker 1, clock 4: this run has reached a different event"));
}

// The error names the clock that the run has reached.
TEST(ReplayedPushes, MissingEventIsRefusedByClock) {
  PushOrder order(kPlan, 1);
  answer_all(order);
  order.pushed(0, 0);
  answer_all(order);
  EXPECT_TRUE(says(message_of<ConfigError>([&] { ReplayedPushes({}, 1).next(order); }),
                   "--replay = clock 1: the log has no more events, and the run has not ended"));
}

}  // namespace
}  // namespace zero
