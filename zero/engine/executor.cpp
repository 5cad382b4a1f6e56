#include "zero/engine/executor.h"

#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/error/log.h"

namespace zero {

Executor::Executor(ShardedState& state, GatherBudget budget, Gatherer& gatherer, const SecondaryParts& parts,
                   Reducer& reducer)
    : state_(state),
      gatherer_(gatherer),
      parts_(parts),
      reducer_(reducer),
      replay_(state.units(), state.world(), state.placement(), budget),
      demand_(state.units(), state.world(), state.placement(), budget),
      announced_(state.units().size(), false) {
  set_capacity(budget);
}

void Executor::event(const Event& event) {
  if (replay_.trace().events.empty()) make_room_for_schedule();
  note(event);
  const bool may_wait = event.kind != EventKind::kAccess || !gatherer_.ready(event.unit);
  const bool mismatched_before = replay_.mismatched();
  const bool foreseen = replay_.follow(event, [this](const Action& action) { issue(action); });
  if (replay_.mismatched() && !mismatched_before) {
    gatherer_.prefetches().cancel();  // the next gathers are unknown now
    warn_of_mismatch();
  }
  if (!foreseen || leaves_something(event)) issue_on_demand(event);
  if (event.kind == EventKind::kAccess) gatherer_.ensure(event.unit);
  if (may_wait && times_ != nullptr) times_->goes_on();
}

// The schedule starts with nothing gathered, as each step ends. An evaluation since then may have left gathered units.
void Executor::make_room_for_schedule() {
  if (std::exchange(untraced_residents_, false)) issue_on_demand({EventKind::kStep, -1, {}});
}

void Executor::note(const Event& event) {
  if (times_ != nullptr) times_->comes(event);
  if (event.kind == EventKind::kAccess) {
    last_accessed_ = event.unit;
  } else if (event.kind != EventKind::kGradient || replay_.schedule().updates.delayed) {
    // these events may release it; after its gradient it may be updated, so its next use must be noted
    last_accessed_ = -1;
  }
  if (event.kind == EventKind::kBackward) {
    in_backward_ = true;
    // Gathers of the last update that this forward pass did not use must not stay open while other collectives run.
    gatherer_.finish();
  }
}

void Executor::warn_of_mismatch() {
  if (std::exchange(said_mismatched_, true)) return;
  const std::vector<Event>& events = replay_.trace().events;
  ZERO_LOG(warn,
           "this step differs from the recorded step from event {} on ({}): until it ends, units are gathered on "
           "demand (printed once; the report counts such steps)",
           events.size(), describe(events.back(), state_.units()));
}

// Returns whether the schedule misses actions: an evaluation during a step gathers units, and may release the accessed
// unit.
bool Executor::leaves_something(const Event& event) const {
  if (event.kind == EventKind::kAccess) return !gatherer_.ready(event.unit);
  return event.kind == EventKind::kStep;
}

void Executor::access(int unit) {
  if (unit != last_accessed_) event({EventKind::kAccess, unit, gatherer_.uses().pinned(), micro_batch_});
}

void Executor::begin_micro_batch(int number) {
  micro_batch_ = number;
  numbered_ = true;
}

void Executor::begin_forward() {
  if (numbered_) return;
  end_backward();
  micro_batch_ = finished_backwards_;
}

void Executor::begin_backward() {
  if (in_own_backward()) return;
  end_backward();
  backward_of_ = micro_batch_;
  event({EventKind::kBackward, -1, {}, backward_of_});
}

void Executor::use_untraced(int unit) {
  if (!gatherer_.ready(unit)) {
    issue_on_demand({EventKind::kAccess, unit, {}});
    untraced_residents_ = true;
  }
  gatherer_.ensure(unit);
  gatherer_.uses().before_writing();
  last_accessed_ = -1;  // the gather of this unit may have released it
}

void Executor::gradient_arrived(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  const bool again = reducer_.arrivals().reduced(unit);  // a recomputed or second pass added it again
  if (!reducer_.arrivals().complete(unit) || (announced_[index] && !again)) return;
  announced_[index] = true;
  event({EventKind::kGradient, unit, {}, backward_of_});
}

void Executor::end_backward() {
  if (!in_backward_) return;
  gatherer_.finish();
  // Sets missing gradients of incomplete units to zero, in the same order on every rank.
  for (int unit : replay_.schedule().reduce_order) {
    const bool late = reducer_.arrivals().reduced(unit) && reducer_.arrivals().open(unit);
    if (!announced_[static_cast<std::size_t>(unit)] || late) event({EventKind::kGradient, unit, {}, backward_of_});
  }
  event({EventKind::kEndBackward, -1, {}, backward_of_});
  reducer_.end_backward();
  announced_.assign(announced_.size(), false);
  ++finished_backwards_;
  in_backward_ = false;
}

bool Executor::in_forward() const {
  const std::vector<Event>& events = replay_.trace().events;
  return !in_own_backward() && !events.empty() && events.back().kind == EventKind::kAccess;
}

void Executor::placement_changed(GatherBudget budget) {
  ZERO_CHECK(budget.is_min() == replay_.schedule().budget.is_min(),
             "whether one unit is gathered at a time is for good");
  replay_.placement_changed(state_.placement(), budget);
  demand_ = Demand(state_.units(), state_.world(), state_.placement(), budget);
  set_capacity(budget);
}

void Executor::set_capacity(GatherBudget budget) {
  gatherer_.blocks().set_capacity(budget.is_min() ? 0 : budget.capacity_bytes);
}

void Executor::close_step(bool same_everywhere) {
  ZERO_CHECK(!in_backward_, "a step was closed inside a backward pass");
  replay_.end_step(same_everywhere);
  count_anew();
}

void Executor::count_anew() {
  finished_backwards_ = 0;
  micro_batch_ = 0;
  numbered_ = false;
}

void Executor::end_short_group() {
  ZERO_CHECK(!in_backward_, "a group of micro-batches ends inside a backward pass");
  gatherer_.prefetches().cancel();
  replay_.leave_schedule();
  if (state_.placement().reduce_each) return;
  for (const int unit : replay_.schedule().reduce_order) {
    const Unit& description = state_.units()[static_cast<std::size_t>(unit)];
    for (const Action& action : reduce_actions(state_.placement(), description, state_.world())) issue(action);
  }
}

void Executor::close_short_step() {
  replay_.end_short_step();
  count_anew();
}

void Executor::restart_step() {
  ZERO_CHECK(!in_backward_, "a step begins anew inside a backward pass");
  gatherer_.prefetches().cancel();
  replay_.restart();
  count_anew();
  last_accessed_ = -1;
  untraced_residents_ = true;  // a schedule starts with nothing gathered
}

void Executor::issue_on_demand(const Event& event) {
  const Holdings held{
      .gathered = gatherer_.resident(),
      .releasable = gatherer_.releasable(),
      .finished_backwards = finished_backwards_,
      .complete = [this](int unit) { return reducer_.arrivals().complete(unit); },
      .reduced = [this](int unit) { return reducer_.arrivals().reduced(unit) && !reducer_.arrivals().open(unit); },
      .kept = [this](int unit) { return parts_.current(unit); }};
  for (const Action& action : demand_.actions(event, held, replay_.schedule().reduce_order)) issue(action);
}

void Executor::issue(const Action& action) {
  switch (action.kind) {
    case ActionKind::kGather:
      gatherer_.begin(action.unit, action.way);
      return;
    case ActionKind::kRelease:
      gatherer_.release(action.unit);
      return;
    case ActionKind::kReduce:
      reducer_.reduce(action.unit);
      return;
    case ActionKind::kPrefetch:
      gatherer_.prefetches().want(action.unit);
      return;
    case ActionKind::kOffload:
      // Part of the reduction before it: the reducer offloads the sum when it is complete.
      ZERO_CHECK(state_.gradient_shard(action.unit) == nullptr, "the gradient of unit {} is on the device",
                 action.unit);
      return;
    case ActionKind::kGatherGradient:
    case ActionKind::kUpdate:
      break;
  }
  ZERO_CHECK(false, "{} does not belong between events", describe(action, state_.units(), state_.placement()));
}

}  // namespace zero
