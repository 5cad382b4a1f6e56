// evaluate_run(), evaluate_and_compare(): the loss over a run's validation split, printed, logged, and compared.
//
//   if (evaluate_and_compare(run)) save_run(run);               // the best evaluation so far
//   if (ends_early(run)) ...                                    // train.patience evaluations brought no improvement
//   const auto found = evaluate_run(run, /*batches=*/0);        // the whole split
//
// With train.ema, the averages are then evaluated too and logged separately. If copies train apart, the weights that
// they share are evaluated. An evaluation ends without a result if a rank receives a signal to stop.
#pragma once

#include <cstdint>
#include <optional>

#include "app/train/run/parts/run.h"
#include "app/train/watch/evaluation.h"

namespace zero {

// Collective. Returns the loss after the newest step; 0 if there is no split; empty after a signal. `batches`: batches
// of each rank; 0: all of them.
std::optional<EvaluationResult> evaluate_run(Run& run, std::int64_t batches);
// Collective. Evaluates after the newest step. If a key asks for it (watched_measure()), compares the result with
// earlier evaluations. True if it is the best.
bool evaluate_and_compare(Run& run);
// Local. True if the run evaluates after its newest step: each `train.eval_every` steps, and after the last step if
// evaluations are compared.
bool evaluates_now(const Run& run);
// Local. True if this step should have been compared and was not: a signal came, or keep_best and patience are new.
bool evaluation_is_missing(const Run& run);
// Local. True if the last train.patience evaluations brought no improvement.
bool ends_early(const Run& run);

}  // namespace zero
