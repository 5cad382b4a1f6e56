#include "zero/serve/replayed_pushes.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

[[noreturn]] void refuse_event(const PushEvent& event) {
  throw ConfigError("--replay",
                    event.returns ? fmt::format("worker {} returns to clock {}", event.worker, event.clock)
                                  : fmt::format("worker {}, clock {}", event.worker, event.clock),
                    "this run has reached a different event", "replay the log with the run's own configuration");
}

}  // namespace

ReplayedPushes::ReplayedPushes(std::deque<PushEvent> events, int workers)
    : events_(std::move(events)), workers_(workers) {}

PushEvent ReplayedPushes::next(const PushOrder& order) {
  if (events_.empty())
    throw ConfigError("--replay", fmt::format("clock {}", order.num_clocks()),
                      "the log has no more events, and the run has not ended",
                      "replay the whole log, with the run's own configuration");
  const PushEvent event = events_.front();
  events_.pop_front();
  const int worker = event.worker;
  if (worker < 0 || worker >= workers_ || order.is_here(worker) == event.returns) refuse_event(event);
  if (!event.returns && !event.leaves && !order.computes(worker)) refuse_event(event);
  return event;
}

void ReplayedPushes::require_clock(const PushEvent& event, std::int64_t clock) const {
  if (event.clock != clock) refuse_event(event);
}

bool ReplayedPushes::somebody_returns() const {
  return std::ranges::any_of(events_, &PushEvent::returns);
}

bool ReplayedPushes::returns(int worker) const {
  return std::ranges::any_of(events_,
                             [worker](const PushEvent& event) { return event.worker == worker && event.returns; });
}

}  // namespace zero
