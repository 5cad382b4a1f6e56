#include "zero/engine/step_update.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/optim/elementwise/averaged_rule.h"

namespace zero {
namespace {

std::vector<int> updated_units(const Schedule& schedule) {
  std::vector<int> units;
  for (const Action& action : schedule.step) {
    if (action.kind == ActionKind::kUpdate) units.push_back(action.unit);
  }
  return units;
}

}  // namespace

StepUpdate::StepUpdate(EngineParts& parts) : parts_(parts), delayed_(parts.state, parts.updater) {
  parts.reducer.set_summed([this](int unit, int pass) { summed(unit, pass); });
}

void StepUpdate::summed(int unit, int pass) {
  if (!delayed_.open() || pass < parts_.options.accumulate - 1 || !parts_.executor.replay().done_with(unit)) return;
  parts_.comms.copy.drain();  // a late peer may still read the shard that will be written
  delayed_.unit_is_free(unit);
}

void StepUpdate::before_use(int unit, bool untraced) const {
  if (!delayed_.started()) return;
  if (untraced) {
    throw ConfigError("zero.delayed_update", "true",
                      "parameters are used between a backward pass and step(), when only some of them are updated",
                      "use parameters before the forward pass or after step(), or set zero.delayed_update = false");
  }
  if (delayed_.is_free(unit)) {
    throw Error(
        fmt::format("{} is used again after its delayed update began: this step differs from the recorded step\n  Set "
                    "zero.delayed_update = false for models whose steps differ.",
                    parts_.state.unit(unit).name));
  }
}

void StepUpdate::before_backward() {
  if (delayed_.open()) return;
  parts_.updater.finish();
  delayed_.begin(parts_.executor.replay().schedule().reduce_order);
}

void StepUpdate::end_last() {
  if (!delayed_.open()) parts_.updater.finish();
}

void StepUpdate::end_delayed() {
  delayed_.begin(parts_.executor.replay().schedule().reduce_order);  // if the step had no backward pass
  if (!delayed_.open()) return;
  const Schedule& schedule = parts_.executor.replay().schedule();
  delayed_.release(updated_units(schedule));
  if (schedule.updates.overlapped) return;
  parts_.updater.finish();
  for (const Action& action : schedule.step) {
    if (action.kind == ActionKind::kGather) carry_out(action);
  }
}

void StepUpdate::apply(Gradients gradients, bool late) {
  const Schedule& schedule = parts_.executor.replay().schedule();
  ZERO_CHECK(!late || schedule.updates.delayed, "no update of this schedule is delayed");
  if (late) {
    delayed_.keep(std::move(gradients));
    return;
  }
  if (schedule.updates.delayed) parts_.state.keep_gradients();
  parts_.updater.begin_step(gradients.present, updated_units(schedule), gradients.scale, gradients.lr);
  for (const Action& action : schedule.step) carry_out(action);
  if (!schedule.updates.overlapped) parts_.updater.finish();
}

void StepUpdate::carry_out(const Action& action) {
  const Schedule& schedule = parts_.executor.replay().schedule();
  ReducedGradients& sums = parts_.reducer.sums();
  switch (action.kind) {
    case ActionKind::kGatherGradient:
      sums.gather(action.unit);
      return;
    case ActionKind::kUpdate:
      parts_.updater.enqueue(action.unit, sums.for_update(action.unit), sums.update_dtype(action.unit));
      if (!schedule.updates.overlapped) parts_.updater.complete(action.unit);
      sums.updated(action.unit);
      return;
    case ActionKind::kGather:
      parts_.gatherer.refresh(action.unit);
      return;
    case ActionKind::kRelease:
    case ActionKind::kReduce:
    case ActionKind::kOffload:
    case ActionKind::kPrefetch:
      break;
  }
  ZERO_CHECK(false, "{} does not belong into step()", describe(action, parts_.state.units(), schedule.placement));
}

void StepUpdate::exchange_averages() {
  run_rule(*make_exchange(*parts_.rule), updated_units(parts_.executor.replay().schedule()), /*gathers=*/true);
}

void StepUpdate::run_rule(const UpdateRule& rule, const std::vector<int>& units, bool gathers) {
  const Schedule& schedule = parts_.executor.replay().schedule();
  const auto is_left_alone = [&units](int unit) { return std::ranges::find(units, unit) == units.end(); };
  std::vector<int> in_order = updated_units(schedule);
  std::erase_if(in_order, is_left_alone);
  parts_.updater.begin_rule(rule, in_order);
  for (const Action& action : schedule.step) {
    if (is_left_alone(action.unit)) continue;
    if (action.kind == ActionKind::kUpdate) {
      parts_.updater.enqueue(action.unit, nullptr, DType::kFloat32);
      parts_.updater.complete(action.unit);
    } else if (action.kind == ActionKind::kGather && gathers) {
      parts_.gatherer.refresh(action.unit);
    }
  }
  parts_.updater.finish();
  parts_.gatherer.finish();
  parts_.secondary.outdate();
}

void StepUpdate::settle() {
  finish();
  parts_.state.streams().finish_offloads();
  give_up_gathered();
}

void StepUpdate::finish(bool ends) {
  parts_.executor.end_backward();
  parts_.gatherer.finish();
  parts_.reducer.wait();  // of a backward pass without step()
  parts_.updater.finish();
  apply_waiting(ends);
}

void StepUpdate::before_drop() {
  const bool waits = delayed_.waits() || delayed_.open();
  if (waits && parts_.executor.in_forward())
    throw ConfigError("zero.delayed_update", "true",
                      "gradients are dropped between a forward pass and its backward pass, while an update waits",
                      "call zero_grad() before the forward pass, or set zero.delayed_update = false");
  finish(/*ends=*/true);
  parts_.state.streams().finish_offloads();
}

void StepUpdate::give_up_gathered() {
  parts_.gatherer.prefetches().cancel();
  parts_.comms.copy.drain();
  for (const int unit : parts_.gatherer.releasable()) parts_.gatherer.release(unit);
  parts_.secondary.outdate();
  parts_.executor.forget_access();
}

// Applies a gradient that waits for the next step, because that step may never run.
void StepUpdate::apply_waiting(bool ends) {
  if (!delayed_.waits() && !delayed_.open()) return;
  const Executor& executor = parts_.executor;
  const int passes = executor.finished_backwards();
  if (!ends && (executor.in_forward() || (passes > 0 && passes < parts_.options.accumulate))) {
    throw ConfigError("zero.delayed_update", "true", "parameters are read during a step that computes with them",
                      "read them between steps: a waiting gradient is then applied first");
  }
  if (!parts_.gatherer.uses().pinned().empty())
    throw ConfigError("zero.delayed_update", "true", "parameters are read while some are gathered",
                      "end the gathered() scope first");
  give_up_gathered();
  end_delayed();
  parts_.updater.finish();
  parts_.gatherer.finish();
}

}  // namespace zero
