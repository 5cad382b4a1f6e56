// ReplayedPushes: the recorded events of a run with servers, for another run that repeats them.
//
//   PushOrder order(plan, 2);
//   ReplayedPushes replayed({{.worker = 1, .clock = 0}, {.worker = 0, .clock = 0, .leaves = true}}, /*workers=*/2);
//   // ... both workers are answered ...
//   const PushEvent event = replayed.next(order);     // worker 1 pushes clock 0; worker 0 waits, however early it is
//   // ... the header of worker 1 arrives ...
//   replayed.require_clock(event, header.clock);      // throws ConfigError if this is another run
//   order.pushed(event.worker, event.clock);
//
// The order of events determines the bits of a run, so the repeated run has the same bits. The events are all events of
// the recorded run, from its first step to its last. The class has no clock and receives no messages: values in, values
// out. Local. Throws ConfigError under "--replay".
#pragma once

#include <cstdint>
#include <deque>

#include "zero/plan/served/push_order.h"

namespace zero {

class ReplayedPushes {
 public:
  // `events`: the first event is in front. `workers`: the number of workers in this run.
  ReplayedPushes(std::deque<PushEvent> events, int workers);

  // Removes and returns the next event; `order` has seen all events before it. Throws ConfigError if no event is left,
  // or if the event is impossible now. It is impossible if its worker is not in this run, has left (for a return: has
  // not left), or pushes before it is answered.
  PushEvent next(const PushOrder& order);
  // Throws ConfigError if the event has another clock than `clock`, that of the worker in this run.
  void require_clock(const PushEvent& event, std::int64_t clock) const;

  // Return true if the events to come include a return of some worker, or of this worker.
  bool somebody_returns() const;
  bool returns(int worker) const;

 private:
  std::deque<PushEvent> events_;  // to come
  int workers_;
};

}  // namespace zero
