#include "zero/engine/executor.h"

#include <algorithm>
#include <utility>

#include "zero/base/error/check.h"
#include "zero/base/error/log.h"

namespace zero {

Executor::Executor(ShardedState& state, GatherBudget budget, Gatherer& gatherer, SecondaryParts& parts,
                   Reducer& reducer, Updater& updater)
    : state_(state),
      gatherer_(gatherer),
      parts_(parts),
      reducer_(reducer),
      updater_(updater),
      replay_(state.units(), state.world(), state.placement(), budget),
      demand_(state.units(), state.world(), state.placement(), budget) {
  set_capacity(budget);
}

void Executor::event(const Event& event) {
  if (replay_.trace().events.empty()) make_room_for_schedule();
  if (times_ != nullptr) times_->comes(event);
  if (event.kind == EventKind::kBackward) {
    in_backward_ = true;
    short_group_ = false;
    // Gathers of the last update that this forward pass did not use must not stay open while other collectives run.
    gatherer_.finish();
  }
  const bool may_wait = event.kind != EventKind::kAccess || !gatherer_.ready(event.unit);
  const bool mismatched_before = replay_.mismatched();
  const bool foreseen = replay_.follow(event, [this](const Action& action) { issue(action); });
  if (replay_.mismatched() && !mismatched_before) {
    gatherer_.prefetches().cancel();  // the next gathers are unknown now
    warn_of_mismatch();
  }
  if (!foreseen || leaves_something(event)) issue_on_demand(event);
  if (event.kind == EventKind::kAccess) gatherer_.ensure(event.unit);
  if (event.kind == EventKind::kGradient && !reduces_in_pass(state_.placement(), finished_backwards_))
    reducer_.sum_leaf(event.unit);
  if (may_wait && times_ != nullptr) times_->goes_on();
  if (event.kind != EventKind::kEndBackward) return;
  reducer_.end_backward();
  ++finished_backwards_;
  in_backward_ = false;
}

// The schedule starts with nothing gathered, as each step ends. An evaluation since then may have left gathered units.
void Executor::make_room_for_schedule() {
  if (std::exchange(untraced_residents_, false)) issue_on_demand({EventKind::kStep, -1, {}});
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

void Executor::use_untraced(int unit) {
  if (!gatherer_.ready(unit)) {
    issue_on_demand({EventKind::kAccess, unit, {}});
    untraced_residents_ = true;
  }
  gatherer_.ensure(unit);
  gatherer_.uses().before_writing();
}

void Executor::placement_changed(GatherBudget budget) {
  ZERO_CHECK(budget.is_min() == replay_.schedule().budget.is_min(),
             "a running engine keeps its choice between one gathered unit at a time and several");
  replay_.placement_changed(state_.placement(), budget);
  demand_ = Demand(state_.units(), state_.world(), state_.placement(), budget);
  set_capacity(budget);
}

void Executor::set_capacity(GatherBudget budget) {
  gatherer_.blocks().set_capacity(budget.is_min() ? 0 : budget.capacity_bytes);
}

void Executor::close_step(bool same_everywhere) {
  ZERO_CHECK(!in_backward_, "a step was closed inside a backward pass");
  if (std::exchange(short_group_, false)) {
    replay_.end_short_step();
  } else {
    replay_.end_step(same_everywhere);
  }
  finished_backwards_ = 0;
}

void Executor::end_short_group() {
  ZERO_CHECK(!in_backward_, "a group of micro-batches ends inside a backward pass");
  gatherer_.prefetches().cancel();
  replay_.leave_schedule();
  short_group_ = true;
  if (state_.placement().reduce_each) return;
  for (const int unit : replay_.schedule().reduce_order) {
    const Unit& description = state_.units()[static_cast<std::size_t>(unit)];
    for (const Action& action : reduce_actions(state_.placement(), description, state_.world())) issue(action);
  }
}

void Executor::restart_step() {
  ZERO_CHECK(!in_backward_, "a step begins anew inside a backward pass");
  gatherer_.prefetches().cancel();
  replay_.restart();
  finished_backwards_ = 0;
  short_group_ = false;
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

void Executor::begin_updates(const StepGradients& gradients, std::span<const int> order) {
  if (state_.placement().delayed_update) state_.keep_gradients();
  updater_.begin_step(gradients.present, order, gradients.scale, gradients.rates);
}

void Executor::update_all() {
  const bool at_once = !schedule().updates.overlapped;
  for (const Action& action : schedule().step) issue(action, at_once);
  if (at_once) updater_.finish();
}

void Executor::update(int unit) {
  issue({ActionKind::kUpdate, unit});
}

void Executor::update_rest() {
  const std::vector<int> units = updated_units(schedule());
  updater_.reorder(units);
  for (const int unit : units) update(unit);
  if (schedule().updates.overlapped) return;
  updater_.finish();
  for (const Action& action : schedule().step) {
    if (action.kind == ActionKind::kGather) issue(action);
  }
}

void Executor::update_with(const std::vector<int>& units, bool gathers, const std::function<void(int unit)>& run) {
  for (const Action& action : schedule().step) {
    if (std::ranges::find(units, action.unit) == units.end()) continue;
    if (action.kind == ActionKind::kUpdate) {
      run(action.unit);
    } else if (action.kind == ActionKind::kGather && gathers) {
      issue(action);
    }
  }
}

void Executor::run_rule(const UpdateRule& rule, const std::vector<int>& units, bool gathers) {
  std::vector<int> in_order = updated_units(schedule());
  std::erase_if(in_order, [&units](int unit) { return std::ranges::find(units, unit) == units.end(); });
  updater_.begin_rule(rule, in_order);
  update_with(units, gathers, [this](int unit) {
    updater_.enqueue(unit, nullptr, DType::kFloat32);
    updater_.complete(unit);
  });
  updater_.finish();
  gatherer_.finish();
  parts_.outdate();
}

void Executor::issue(const Action& action, bool updates_end_at_once) {
  ReducedGradients& sums = reducer_.sums();
  switch (action.kind) {
    case ActionKind::kGather:
      state_.placement().parameter_sharded ? gatherer_.begin(action.unit, action.way) : gatherer_.refresh(action.unit);
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
      sums.gather(action.unit);
      return;
    case ActionKind::kUpdate:
      updater_.enqueue(action.unit, sums.for_update(action.unit), sums.update_dtype(action.unit));
      if (updates_end_at_once) updater_.complete(action.unit);
      sums.updated(action.unit);
      return;
  }
}

}  // namespace zero
