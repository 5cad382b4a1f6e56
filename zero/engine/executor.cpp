#include "zero/engine/executor.h"

#include <algorithm>

#include "zero/base/check.h"
#include "zero/base/log.h"

namespace zero {

Executor::Executor(ShardedState& state, GatherBudget budget, Gatherer& gatherer, Reducer& reducer)
    : state_(state),
      budget_(budget),
      gatherer_(gatherer),
      reducer_(reducer),
      schedule_(build_schedule({}, state.units(), state.world(), state.placement(), budget)),
      announced_(state.units().size(), false) {
  gatherer_.set_capacity(budget.is_minimum() ? 0 : budget.capacity_bytes);
}

void Executor::event(const Event& event) {
  if (trace_.events.empty()) {
    replaying_ = !schedule_.entries.empty();
    // The schedule starts from nothing gathered; an evaluation before this step may have left units.
    if (std::exchange(untraced_residents_, false)) {
      for (int unit : gatherer_.releasable()) gatherer_.release(unit);
    }
  }
  trace_.events.push_back(event);
  for (PassClock* const clock : clocks_) clock->note(event);
  if (event.kind == EventKind::kAccess) {
    last_accessed_ = event.unit;
  } else if (event.kind != EventKind::kGradient || state_.placement().delayed_update) {
    last_accessed_ = -1;  // these events may release it; after its gradient it may be updated, and a use must be known
  }
  if (event.kind == EventKind::kBackward) {
    in_backward_ = true;
    // What the last update began and this forward did not use must not stay open while collectives go on.
    gatherer_.finish();
  }
  if (replaying_ && (cursor_ >= schedule_.entries.size() || schedule_.entries[cursor_].event != event)) {
    replaying_ = false;
    mismatched_ = true;
    gatherer_.cancel_prefetches();  // what comes next is not known any more
    if (!std::exchange(said_mismatched_, true)) {
      ZERO_LOG(
          warn,
          "this step departs from the recorded one at event {} ({}): gathering on demand until it ends (said once; "
          "the report counts such steps)",
          trace_.events.size(), describe(event, state_.units()));
    }
  }
  if (replaying_) {
    for (const Action& action : schedule_.entries[cursor_].actions) issue(action);
    ++cursor_;
  } else {
    for (const Action& action : demand_actions(event)) issue(action);
  }
  if (event.kind == EventKind::kStep) {
    // The update makes every gathered copy stale, also those that the schedule does not know of.
    for (int unit : gatherer_.releasable()) gatherer_.release(unit);
  }
  if (event.kind == EventKind::kAccess) {
    if (!replaying_ || !gatherer_.ready(event.unit)) make_room(event.unit);
    gatherer_.ensure(event.unit);
  }
}

void Executor::access(int unit) {
  if (unit != last_accessed_) event({EventKind::kAccess, unit, gatherer_.pinned()});
}

void Executor::begin_backward() {
  if (!in_backward_) event({EventKind::kBackward, -1, {}});
}

void Executor::use_untraced(int unit) {
  if (!gatherer_.ready(unit)) {
    make_room(unit);
    untraced_residents_ = true;
  }
  gatherer_.ensure(unit);
  gatherer_.before_writing();
  last_accessed_ = -1;  // it may have made room for this one
}

void Executor::gradient_arrived(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  const bool again = reducer_.reduced(unit);  // a recomputed or second pass brought it once more
  if (!reducer_.complete(unit) || (announced_[index] && !again)) return;
  announced_[index] = true;
  event({EventKind::kGradient, unit, {}});
}

void Executor::end_backward() {
  if (!in_backward_) return;
  gatherer_.finish();
  // Whatever is incomplete is completed with zeros, in the order every rank keeps.
  for (int unit : schedule_.reduce_order) {
    const bool late = reducer_.reduced(unit) && reducer_.open(unit);
    if (!announced_[static_cast<std::size_t>(unit)] || late) event({EventKind::kGradient, unit, {}});
  }
  event({EventKind::kEndBackward, -1, {}});
  reducer_.end_backward();
  announced_.assign(announced_.size(), false);
  ++finished_backwards_;
  in_backward_ = false;
}

void Executor::set_budget(GatherBudget budget) {
  ZERO_CHECK(budget.is_minimum() == budget_.is_minimum(), "whether one unit is gathered at a time is for good");
  budget_ = budget;
  outdated_ = true;
  gatherer_.set_capacity(budget.is_minimum() ? 0 : budget.capacity_bytes);
}

void Executor::close_step(bool same_everywhere) {
  ZERO_CHECK(!in_backward_, "a step was closed inside a backward pass");
  const bool replayed = replaying_ && cursor_ == schedule_.entries.size();
  if (!replayed || !same_everywhere || std::exchange(outdated_, false)) {
    // Without a trace that all ranks share, the next step runs on demand, in an order that does not depend on data.
    schedule_ =
        build_schedule(same_everywhere ? trace_ : Trace{}, state_.units(), state_.world(), state_.placement(), budget_);
  }
  trace_.events.clear();
  cursor_ = 0;
  finished_backwards_ = 0;
  replaying_ = mismatched_ = false;
}

// The entry at the cursor is being served: its event is past, its actions may be to come.
bool Executor::done_with(int unit) const {
  if (!replaying_) return false;
  for (std::size_t i = cursor_; i < schedule_.entries.size(); ++i) {
    const ScheduleEntry& entry = schedule_.entries[i];
    const bool comes = entry.event.unit == unit &&
                       (entry.event.kind == EventKind::kAccess || entry.event.kind == EventKind::kGradient);
    if (comes && i > cursor_) return false;
    if (std::ranges::any_of(entry.actions, [unit](const Action& action) {
          return action.unit == unit && (action.kind == ActionKind::kGather || action.kind == ActionKind::kPrefetch);
        }))
      return false;
  }
  return true;
}

bool Executor::reduces_now() const {
  return state_.placement().reduce_each || finished_backwards_ >= state_.placement().accumulate - 1;
}

void Executor::issue(const Action& action) {
  switch (action.kind) {
    case ActionKind::kGather:
      gatherer_.begin(action.unit);
      return;
    case ActionKind::kRelease:
      gatherer_.release(action.unit);
      return;
    case ActionKind::kReduce:
      reducer_.reduce(action.unit);
      return;
    case ActionKind::kPrefetch:
      gatherer_.fetch(action.unit);
      return;
    case ActionKind::kOffload:
      // Part of the reduction before it: the reducer does it as soon as the sum is complete.
      ZERO_CHECK(state_.gradient_shard(action.unit) == nullptr, "the gradient of unit {} lies on the device",
                 action.unit);
      return;
    case ActionKind::kGatherGradient:
    case ActionKind::kUpdate:
      break;
  }
  ZERO_CHECK(false, "{} does not belong between events", describe(action, state_.units(), state_.placement()));
}

std::vector<Action> Executor::demand_actions(const Event& event) const {
  std::vector<Action> actions;
  const auto release_all = [&] {
    for (int unit : gatherer_.releasable()) actions.push_back({ActionKind::kRelease, unit});
  };
  switch (event.kind) {
    case EventKind::kAccess:
      break;  // ensure() gathers it
    case EventKind::kBackward:
    case EventKind::kEndBackward:
      if (budget_.is_minimum()) release_all();
      break;
    case EventKind::kGradient:
      if (reduces_now()) reduce_in_order(actions);
      break;
    case EventKind::kStep:
      release_all();
      break;
  }
  return actions;
}

// Units are reduced in the schedule's order: one that is complete waits for those before it, so that the order of
// collectives never depends on which gradients a rank happens to have. What is still missing when the backward pass
// ends comes as zeros.
void Executor::reduce_in_order(std::vector<Action>& actions) const {
  const Event& latest = trace_.events.back();
  for (int unit : schedule_.reduce_order) {
    if (reducer_.reduced(unit) && !reducer_.open(unit)) continue;
    const bool flushed = unit == latest.unit;
    if (!reducer_.complete(unit) && !flushed) return;
    for (const Action& action : reduce_actions(state_.placement(), state_.unit(unit), state_.world()))
      actions.push_back(action);
  }
}

void Executor::make_room(int unit) {
  const Residency& resident = gatherer_.resident();
  const std::int64_t wanted = resident.holds(unit) ? 0 : resident.bytes_of(unit);
  for (int victim : gatherer_.releasable()) {
    if (!budget_.is_minimum() && resident.bytes() + wanted <= budget_.capacity_bytes) return;
    if (victim != unit) gatherer_.release(victim);
  }
}

}  // namespace zero
