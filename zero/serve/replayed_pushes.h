// ReplayedPushes: the events of a recorded run with servers, for a run that repeats them: whose turn it is, and whether the
// two runs are still alike.
//
//   PushOrder order(plan, 2);
//   ReplayedPushes replayed({{.worker = 1, .clock = 0}, {.worker = 0, .clock = 0, .leaves = true}}, /*workers=*/2);
//   ...both workers are answered...
//   const PushEvent event = replayed.next(order);     // worker 1 pushes clock 0; worker 0 waits, however early it comes
//   ...the header of worker 1 comes...
//   replayed.require_clock(event, header.clock);      // or this is another run
//   order.pushed(event.worker, event.clock);
//
// The order of events decides the bits of a run: so one that repeats them has the same bits. These are all events of the
// recorded run, from its first step to its last. It keeps no clock and hears of nobody: values in, values out. Local.
// Throws ConfigError under "--replay".
#pragma once

#include <cstdint>
#include <deque>

#include "zero/plan/push_order.h"

namespace zero {

class ReplayedPushes {
 public:
  // The first event in front. `workers`: of this run.
  ReplayedPushes(std::deque<PushEvent> events, int workers);

  // Takes the next event out; `order` has seen all before it. ConfigError where none is left, and where it cannot come now:
  // of a worker that this run has not, that has left (for a return: has not), or that pushes before it is answered.
  PushEvent next(const PushOrder& order);
  // `clock`: of the worker in this run. ConfigError where the event has another one.
  void require_clock(const PushEvent& event, std::int64_t clock) const;

  // Among the events to come: one in which some worker, or this one, returns.
  bool somebody_returns() const;
  bool returns(int worker) const;

 private:
  std::deque<PushEvent> events_;  // to come
  int workers_;
};

}  // namespace zero
