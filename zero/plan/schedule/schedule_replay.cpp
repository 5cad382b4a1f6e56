#include "zero/plan/schedule/schedule_replay.h"

#include <utility>

namespace zero {

ScheduleReplay::ScheduleReplay(const std::vector<Unit>& units, int world, Placement placement, GatherBudget budget)
    : units_(units),
      world_(world),
      placement_(std::move(placement)),
      budget_(budget),
      schedule_(build_schedule({}, units, world, placement_, budget)) {}

bool ScheduleReplay::follow(const Event& event, const std::function<void(const Action&)>& issue) {
  if (trace_.events.empty()) replaying_ = !schedule_.entries.empty();
  trace_.events.push_back(event);
  if (replaying_ && (cursor_ >= schedule_.entries.size() || schedule_.entries[cursor_].event != event)) {
    replaying_ = false;
    mismatched_ = true;
  }
  if (!replaying_) return false;
  for (const Action& action : schedule_.entries[cursor_].actions) issue(action);
  ++cursor_;
  return true;
}

void ScheduleReplay::placement_changed(Placement placement, GatherBudget budget) {
  placement_ = std::move(placement);
  budget_ = budget;
  outdated_ = true;
}

void ScheduleReplay::end_step(bool same_everywhere) {
  const bool replayed = replaying_ && cursor_ == schedule_.entries.size();
  if (!replayed || !same_everywhere || std::exchange(outdated_, false)) {
    // Without a trace that all ranks share, the next step runs on demand, in an order that does not depend on data.
    schedule_ = build_schedule(same_everywhere ? trace_ : Trace{}, units_, world_, placement_, budget_);
  }
  restart();
}

void ScheduleReplay::renew() {
  if (!std::exchange(outdated_, false)) return;
  Trace recorded;
  for (const ScheduleEntry& entry : schedule_.entries) recorded.events.push_back(entry.event);
  schedule_ = build_schedule(recorded, units_, world_, placement_, budget_);
}

void ScheduleReplay::end_short_step() {
  renew();
  restart();
}

void ScheduleReplay::restart() {
  trace_.events.clear();
  cursor_ = 0;
  replaying_ = mismatched_ = false;
}

// The event of the entry at the cursor has been followed, but its actions may not have been issued yet.
bool ScheduleReplay::done_with(int unit) const {
  return replaying_ && cursor_ >= schedule_.updates.free_from[static_cast<std::size_t>(unit)];
}

}  // namespace zero
