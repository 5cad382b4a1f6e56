#include "zero/engine/update_times.h"

#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"

namespace zero {

UpdateTimes::UpdateTimes(EngineParts& parts) : parts_(parts) {
  parts.reducer.set_summed([this](int unit, int pass) { summed(unit, pass); });
}

void UpdateTimes::summed(int unit, int pass) {
  if (!open_ || pass < parts_.options.accumulate - 1 || !parts_.executor.replay().done_with(unit)) return;
  parts_.comms.copy.drain();  // a late peer may still read the shard that will be written
  updated_.resize(parts_.state.units().size());
  updated_[static_cast<std::size_t>(unit)] = true;
  parts_.executor.update(unit);
}

void UpdateTimes::before_use(int unit, bool untraced) const {
  if (!has_updated_some()) return;
  if (untraced) {
    throw ConfigError("zero.delayed_update", "true",
                      "parameters are used between a backward pass and step(), when only some of them are updated",
                      "use parameters before the forward pass or after step(), or set zero.delayed_update = false");
  }
  if (updated_[static_cast<std::size_t>(unit)]) {
    throw Error(
        fmt::format("{} is used again after its delayed update began: this step differs from the recorded step\n"
                    "  Set zero.delayed_update = false for models whose steps differ.",
                    parts_.state.unit(unit).name));
  }
}

void UpdateTimes::before_backward() {
  if (open_) return;
  parts_.updater.finish();
  begin_waiting();
}

void UpdateTimes::before_agreement() {
  if (!open_) parts_.updater.finish();
}

void UpdateTimes::after_agreement() {
  begin_waiting();  // if the step had no backward pass
  if (!std::exchange(open_, false)) return;
  updated_.clear();
  parts_.executor.update_rest();
}

void UpdateTimes::begin_waiting() {
  if (!waiting_) return;
  const StepGradients gradients = *std::exchange(waiting_, std::nullopt);
  parts_.executor.begin_updates(gradients, parts_.executor.schedule().reduce_order);
  open_ = true;
}

void UpdateTimes::apply(StepGradients gradients, bool late) {
  const Schedule& schedule = parts_.executor.schedule();
  ZERO_CHECK(!late || schedule.updates.delayed, "no update of this schedule is delayed");
  if (late) {
    ZERO_CHECK(!waiting_, "a waiting gradient would be lost");
    waiting_ = std::move(gradients);
    return;
  }
  parts_.executor.begin_updates(gradients, updated_units(schedule));
  parts_.executor.update_all();
}

void UpdateTimes::settle() {
  finish();
  parts_.state.streams().finish_offloads();
  give_up_gathered();
}

void UpdateTimes::finish(bool ends) {
  parts_.passes.end_backward();
  parts_.gatherer.finish();
  parts_.reducer.wait();  // of a backward pass without step()
  parts_.updater.finish();
  apply_waiting(ends);
}

void UpdateTimes::before_drop() {
  if (is_late() && parts_.passes.in_forward())
    throw ConfigError("zero.delayed_update", "true",
                      "gradients are dropped between a forward pass and its backward pass, while an update waits",
                      "call zero_grad() before the forward pass, or set zero.delayed_update = false");
  finish(/*ends=*/true);
  parts_.state.streams().finish_offloads();
}

void UpdateTimes::give_up_gathered() {
  parts_.gatherer.prefetches().cancel();
  parts_.comms.copy.drain();
  for (const int unit : parts_.gatherer.releasable()) parts_.gatherer.release(unit);
  parts_.secondary.outdate();
  parts_.passes.forget_access();
}

// Applies a gradient that waits for the next step, because that step may never run.
void UpdateTimes::apply_waiting(bool ends) {
  if (!is_late()) return;
  const int passes = parts_.executor.finished_backwards();
  if (!ends && (parts_.passes.in_forward() || (passes > 0 && passes < parts_.options.accumulate))) {
    throw ConfigError("zero.delayed_update", "true", "parameters are read during a step that computes with them",
                      "read them between steps: a waiting gradient is then applied first");
  }
  if (!parts_.gatherer.uses().pinned().empty())
    throw ConfigError("zero.delayed_update", "true", "parameters are read while some are gathered",
                      "end the gathered() scope first");
  give_up_gathered();
  after_agreement();
  parts_.updater.finish();
  parts_.gatherer.finish();
}

}  // namespace zero
