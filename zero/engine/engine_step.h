// EngineStep: carries out RankEngine::step().
//
//   EngineStep step(parts, update, state_mover, statistics);
//   StepReport report = step.take(lr, {.loss = loss});
//
// The passes end, and ranks exchange sums, counts and losses once (StepSync). All ranks then update, or all skip
// because a gradient or a loss is not finite or exceeds a limit. A skipped step changes no state. If a dynamic loss
// scale was too high, the step lowers the scale and does not count towards `max_skipped_steps`. If copies of the model
// train apart, each copy clips by the norm of its own gradient. Copies skip together, and an outer step merges them
// after the steps that the options name. EngineStep also counts steps, for checkpoints (progress()). Collective, unless
// said otherwise. Throws ConfigError for a step at the wrong time, or for losses without their scale. Throws CommError
// if ranks ran different passes, IoError, and Error after `max_skipped_steps` in a row.
#pragma once

#include <functional>

#include "zero/engine/engine_statistics.h"
#include "zero/engine/options/step_report.h"
#include "zero/engine/outer_steps.h"
#include "zero/engine/state_mover.h"
#include "zero/engine/states/given_gradients.h"
#include "zero/engine/update_times.h"
#include "zero/engine/wire/step_sync.h"

namespace zero {

class EngineStep {
 public:
  EngineStep(EngineParts& parts, UpdateTimes& update_times, StateMover& state_mover, EngineStatistics& statistics)
      : parts_(parts),
        update_times_(update_times),
        state_mover_(state_mover),
        statistics_(statistics),
        outer_(parts, update_times, statistics) {}

  // Call it with the first gradient of a backward pass, or the first use of a unit in it. No-op later in the pass.
  void begin_backward();
  StepReport take(const StepRates& rates, const StepLimits& limits) { return carry_out(agree(rates, limits), rates); }
  // The two halves of take(), for a model whose parts have engines of their own. Between them the caller adds the
  // verdicts of all parts with add_part(). agree() ends the passes; carry_out() updates or skips.
  StepSync agree(const StepRates& rates, const StepLimits& limits);
  StepReport carry_out(const StepSync& agreed, const StepRates& rates);
  // Drops the gradients of these parameters, by parameter, that the running step has so far. If no rank has another
  // gradient, the step begins again without any micro-batch. No-op before the first backward pass of a step.
  void drop(const std::vector<bool>& params);

  // Local. Ends a step whose update is made elsewhere; see HalfSteps::give_away().
  void give_away(const TakeGradient& take, const std::function<void()>& taken);

  // Makes the weights the anchors before the first step, if copies train apart; no-op later. Call it between steps.
  void anchor() { outer_.anchor(num_done()); }
  // Takes the outer step now, of the fragments with a step since their last outer step.
  void merge() { outer_.merge(num_done(), num_updates_); }
  // Waits for the sums of an outer step that are in progress.
  void finish_outer() { outer_.finish(); }

  // Local. Returns the factor of the next loss before its backward pass; 1: no loss scale.
  double scale_loss();
  // Local. Returns the same factor, and counts no loss.
  double loss_scale() const;

  // Local.
  std::int64_t num_taken() const { return num_taken_; }
  std::int64_t num_updates() const { return num_updates_; }
  EngineProgress progress() const;
  void set_progress(const EngineProgress& progress);
  void add_to(EngineReport& report) const;

 private:
  void note_step();
  void end_passes(bool fewer_micro_batches = false);
  void require_passes(int passes, bool fewer_micro_batches) const;
  void require_scaled(int passes) const;
  void warn_without_gradients(const StepSync& agreed);
  void require_leaf_losses(const StepLimits& limits) const;
  StepSync exchange_results(const StepRates& rates, const StepLimits& limits);
  SkipReason reason_to_skip(const StepSync& agreed, double norm) const;
  StepReport report_of(const StepSync& agreed, double norm) const;
  std::int64_t num_done() const { return num_updates_ + num_skipped_; }
  void apply(const StepSync& agreed, double norm, double divisor, const StepRates& rates);
  void skip(const StepReport& report, const StepSync& agreed);

  EngineParts& parts_;
  UpdateTimes& update_times_;
  StateMover& state_mover_;
  EngineStatistics& statistics_;
  std::int64_t num_taken_ = 0;  // by this process, skipped steps included
  std::int64_t num_updates_ = 0;
  std::int64_t num_skipped_ = 0;
  std::int64_t num_delayed_ = 0;
  std::int64_t num_trace_mismatches_ = 0;
  int skipped_in_a_row_ = 0;
  bool said_without_gradients_ = false;
  int num_scaled_ = 0;     // losses of this step that were scaled
  int scaled_before_ = 0;  // losses scaled before the step's last backward pass
  bool dropped_ = false;   // the step was dropped, and no backward pass has begun since
  OuterSteps outer_;
};

}  // namespace zero
