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
  gatherer_.set_capacity(budget.strict() ? 0 : budget.capacity_bytes);
}

void Executor::event(const Event& event) {
  if (trace_.events.empty()) {
    replaying_ = !schedule_.stations.empty();
    // The schedule starts from nothing gathered; an evaluation before this step may have left units.
    if (std::exchange(untraced_residents_, false)) {
      for (int unit : gatherer_.releasable()) gatherer_.release(unit);
    }
  }
  trace_.events.push_back(event);
  for (PassClock* const clock : clocks_) clock->note(event);
  if (event.kind == EventKind::kTouch) {
    last_touched_ = event.unit;
  } else if (event.kind != EventKind::kGradient || state_.placement().delayed_update) {
    last_touched_ = -1;  // these events may release it; after its gradient it may be updated, and a use must be known
  }
  if (event.kind == EventKind::kBackward) {
    in_backward_ = true;
    // What the last update began and this forward did not use must not stay open while collectives go on.
    gatherer_.finish();
  }
  if (replaying_ && (cursor_ >= schedule_.stations.size() || schedule_.stations[cursor_].event != event)) {
    replaying_ = false;
    departed_ = true;
    gatherer_.cancel_fetches();  // what comes next is not known any more
    if (!std::exchange(said_departed_, true)) {
      ZERO_LOG(
          warn,
          "this step departs from the recorded one at event {} ({}): gathering on demand until it ends (said once; "
          "the report counts such steps)",
          trace_.events.size(), describe(event, state_.units()));
    }
  }
  if (replaying_) {
    for (const Move& move : schedule_.stations[cursor_].moves) issue(move);
    ++cursor_;
  } else {
    for (const Move& move : demand_moves(event)) issue(move);
  }
  if (event.kind == EventKind::kStep) {
    // The update makes every gathered copy stale, also those that the schedule does not know of.
    for (int unit : gatherer_.releasable()) gatherer_.release(unit);
  }
  if (event.kind == EventKind::kTouch) {
    if (!replaying_ || !gatherer_.ready(event.unit)) make_room(event.unit);
    gatherer_.ensure(event.unit);
  }
}

void Executor::touch(int unit) {
  if (unit != last_touched_) event({EventKind::kTouch, unit, gatherer_.pinned()});
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
  last_touched_ = -1;  // it may have made room for this one
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
  ZERO_CHECK(budget.strict() == budget_.strict(), "whether one unit is gathered at a time is for good");
  budget_ = budget;
  outdated_ = true;
  gatherer_.set_capacity(budget.strict() ? 0 : budget.capacity_bytes);
}

void Executor::close_step(bool same_everywhere) {
  ZERO_CHECK(!in_backward_, "a step was closed inside a backward pass");
  const bool replayed = replaying_ && cursor_ == schedule_.stations.size();
  if (!replayed || !same_everywhere || std::exchange(outdated_, false)) {
    // Without a trace that all ranks share, the next step runs on demand, in an order that does not depend on data.
    schedule_ =
        build_schedule(same_everywhere ? trace_ : Trace{}, state_.units(), state_.world(), state_.placement(), budget_);
  }
  trace_.events.clear();
  cursor_ = 0;
  finished_backwards_ = 0;
  replaying_ = departed_ = false;
}

// The station at the cursor is being served: its event is past, its moves may be to come.
bool Executor::done_with(int unit) const {
  if (!replaying_) return false;
  for (std::size_t i = cursor_; i < schedule_.stations.size(); ++i) {
    const Station& station = schedule_.stations[i];
    const bool comes = station.event.unit == unit &&
                       (station.event.kind == EventKind::kTouch || station.event.kind == EventKind::kGradient);
    if (comes && i > cursor_) return false;
    if (std::ranges::any_of(station.moves, [unit](const Move& move) {
          return move.unit == unit && (move.kind == MoveKind::kGather || move.kind == MoveKind::kFetch);
        }))
      return false;
  }
  return true;
}

bool Executor::reduces_now() const {
  return state_.placement().reduce_each || finished_backwards_ >= state_.placement().accumulate - 1;
}

void Executor::issue(const Move& move) {
  switch (move.kind) {
    case MoveKind::kGather:
      gatherer_.begin(move.unit);
      return;
    case MoveKind::kRelease:
      gatherer_.release(move.unit);
      return;
    case MoveKind::kReduce:
      reducer_.reduce(move.unit);
      return;
    case MoveKind::kFetch:
      gatherer_.fetch(move.unit);
      return;
    case MoveKind::kSpill:
      // Part of the reduction before it: the reducer does it as soon as the sum is complete.
      ZERO_CHECK(state_.gradient_shard(move.unit) == nullptr, "the gradient of unit {} lies on the device", move.unit);
      return;
    case MoveKind::kGatherGradient:
    case MoveKind::kUpdate:
      break;
  }
  ZERO_CHECK(false, "{} does not belong between events", describe(move, state_.units(), state_.placement()));
}

std::vector<Move> Executor::demand_moves(const Event& event) const {
  std::vector<Move> moves;
  const auto release_all = [&] {
    for (int unit : gatherer_.releasable()) moves.push_back({MoveKind::kRelease, unit});
  };
  switch (event.kind) {
    case EventKind::kTouch:
      break;  // ensure() gathers it
    case EventKind::kBackward:
    case EventKind::kEndBackward:
      if (budget_.strict()) release_all();
      break;
    case EventKind::kGradient:
      if (reduces_now()) reduce_in_order(moves);
      break;
    case EventKind::kStep:
      release_all();
      break;
  }
  return moves;
}

// Units are reduced in the schedule's order: one that is complete waits for those before it, so that the order of
// collectives never depends on which gradients a rank happens to have. What is still missing when the backward pass
// ends comes as zeros.
void Executor::reduce_in_order(std::vector<Move>& moves) const {
  const Event& latest = trace_.events.back();
  for (int unit : schedule_.reduce_order) {
    if (reducer_.reduced(unit) && !reducer_.open(unit)) continue;
    const bool flushed = unit == latest.unit;
    if (!reducer_.complete(unit) && !flushed) return;
    for (const Move& move : reduce_moves(state_.placement(), state_.unit(unit), state_.world())) moves.push_back(move);
  }
}

void Executor::make_room(int unit) {
  const Residency& resident = gatherer_.resident();
  const std::int64_t wanted = resident.holds(unit) ? 0 : resident.bytes_of(unit);
  for (int victim : gatherer_.releasable()) {
    if (!budget_.strict() && resident.bytes() + wanted <= budget_.capacity_bytes) return;
    if (victim != unit) gatherer_.release(victim);
  }
}

}  // namespace zero
