#include "zero/engine/step_passes.h"

namespace zero {

StepPasses::StepPasses(const ShardedState& state, Gatherer& gatherer, Reducer& reducer, Executor& executor)
    : gatherer_(gatherer),
      reducer_(reducer),
      executor_(executor),
      delayed_update_(state.placement().delayed_update),
      announced_(state.units().size(), false) {}

void StepPasses::event(const Event& event) {
  if (event.kind == EventKind::kAccess) {
    last_accessed_ = event.unit;
  } else if (event.kind != EventKind::kGradient || delayed_update_) {
    // these events may release it; after its gradient it may be updated, so its next use must be noted
    last_accessed_ = -1;
  }
  executor_.event(event);
}

void StepPasses::access(int unit) {
  if (unit != last_accessed_) event({EventKind::kAccess, unit, gatherer_.uses().pinned(), micro_batch_});
}

void StepPasses::use_untraced(int unit) {
  executor_.use_untraced(unit);
  last_accessed_ = -1;  // the gather of this unit may have released it
}

void StepPasses::begin_micro_batch(int number) {
  micro_batch_ = number;
  numbered_ = true;
}

void StepPasses::begin_forward() {
  if (numbered_) return;
  end_backward();
  micro_batch_ = executor_.finished_backwards();
}

void StepPasses::begin_backward() {
  if (in_own_backward()) return;
  end_backward();
  backward_of_ = micro_batch_;
  event({EventKind::kBackward, -1, {}, backward_of_});
}

void StepPasses::gradient_arrived(int unit) {
  const auto index = static_cast<std::size_t>(unit);
  const bool again = reducer_.arrivals().reduced(unit);  // a recomputed or second pass added it again
  if (!reducer_.arrivals().complete(unit) || (announced_[index] && !again)) return;
  announced_[index] = true;
  event({EventKind::kGradient, unit, {}, backward_of_});
}

void StepPasses::end_backward() {
  if (!executor_.in_backward()) return;
  gatherer_.finish();
  // Sets missing gradients of incomplete units to zero, in the same order on every rank.
  for (int unit : executor_.schedule().reduce_order) {
    const bool late = reducer_.arrivals().reduced(unit) && reducer_.arrivals().open(unit);
    if (!announced_[static_cast<std::size_t>(unit)] || late) event({EventKind::kGradient, unit, {}, backward_of_});
  }
  event({EventKind::kEndBackward, -1, {}, backward_of_});
  announced_.assign(announced_.size(), false);
}

void StepPasses::end() {
  event({EventKind::kStep, -1, {}});
}

bool StepPasses::in_forward() const {
  const std::vector<Event>& events = executor_.replay().trace().events;
  return !in_own_backward() && !events.empty() && events.back().kind == EventKind::kAccess;
}

void StepPasses::close_step(bool same_everywhere) {
  executor_.close_step(same_everywhere);
  count_anew();
}

void StepPasses::restart_step() {
  executor_.restart_step();
  count_anew();
  last_accessed_ = -1;
}

void StepPasses::count_anew() {
  micro_batch_ = 0;
  numbered_ = false;
}

}  // namespace zero
