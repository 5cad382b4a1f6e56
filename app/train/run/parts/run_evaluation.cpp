#include "app/train/run/parts/run_evaluation.h"

#include <string>

#include <fmt/format.h>

#include "zero/base/process/clock.h"
#include "zero/comm/collectives.h"

#include "app/report/screen/loss_text.h"

namespace zero {
namespace {

std::optional<EvaluationResult> evaluate_weights(Run& run, std::int64_t batches, bool averaged) {
  const TimedSpan span(run.timeline.recorder(), Activity::kEvaluate);
  const double begin = monotonic_seconds();
  Communicator& comm = run.ranks.comm();
  int signal = 0;
  const auto must_stop = [&] {
    const int mine = run.stop == nullptr ? 0 : run.stop->pending();
    signal = static_cast<int>(-all_reduce_min(comm, -mine));
    return signal != 0;
  };
  std::optional<PipelineEngine>& pipeline = run.model.pipeline;
  const std::optional<EvaluationResult> found =
      evaluate_unless(must_stop, *run.model.task, *run.data.corpus.validation, run.data.shares.grid(), batches, comm,
                      pipeline ? &*pipeline : nullptr, /*equal_bits=*/run.job.train.leaves > 0);
  const std::int64_t step = run.state.step;
  if (!found) {
    run.say(fmt::format("signal {}: the evaluation after step {} is left out", signal, step));
    return std::nullopt;
  }
  const double seconds = monotonic_seconds() - begin;
  run.records.log.add(EvaluationMetrics{.step = step,
                                        .val_loss = found->loss,
                                        .accuracy = found->accuracy,
                                        .perplexity = found->perplexity,
                                        .averaged = averaged,
                                        .seconds = seconds});
  const char* const of = averaged ? "_ema" : "";
  std::string beside;
  if (found->accuracy) beside = fmt::format("  val_accuracy{} {:.2f} %", of, 100 * *found->accuracy);
  if (found->perplexity) beside = fmt::format("  val_perplexity{} {:.3f}", of, *found->perplexity);
  run.say(fmt::format("step {}/{}  val_loss{} {}{}{}", step, run.job.train.steps, of, loss_text(found->loss), beside,
                      batches == 0 ? "  (the whole validation split)" : ""));
  return found;
}

}  // namespace

std::optional<EvaluationResult> evaluate_run(Run& run, std::int64_t batches) {
  if (!run.data.corpus.validation) return EvaluationResult{};
  if (run.job.attach.local) {
    const AveragedScope shared = run.model.engine->averaged();
    return evaluate_weights(run, batches, /*averaged=*/false);
  }
  const std::optional<EvaluationResult> found = evaluate_weights(run, batches, /*averaged=*/false);
  if (!found || run.job.attach.ema == 0) return found;
  const AveragedScope averages = run.model.trained().averaged();
  return evaluate_weights(run, batches, /*averaged=*/true) ? found : std::nullopt;
}

bool evaluate_and_compare(Run& run) {
  const std::optional<EvaluationResult> found = evaluate_run(run, run.job.train.eval_batches);
  const std::optional<BestMeasure> measure = watched_measure(run.job);
  if (!found || !measure) return false;
  RunState& state = run.state;
  const bool is_best =
      state.best.add(*measure, state.step, *measure == BestMeasure::kLoss ? found->loss : found->accuracy.value());
  if (ends_early(run))
    run.say(fmt::format("step {}: the run ends here, as {} (train.patience = {})", state.step, describe(state.best),
                        run.job.train.patience));
  return is_best;
}

bool evaluates_now(const Run& run) {
  const std::int64_t every = run.job.train.eval_every, step = run.state.step;
  return every > 0 && (step % every == 0 || (step == run.job.train.steps && watched_measure(run.job)));
}

bool evaluation_is_missing(const Run& run) {
  const std::optional<BestMeasure> measure = watched_measure(run.job);
  if (!measure || run.state.step == 0 || !evaluates_now(run)) return false;
  return run.state.best.evaluated != run.state.step || run.state.best.measure != *measure;
}

bool ends_early(const Run& run) {
  const std::optional<BestMeasure> measure = watched_measure(run.job);
  const BestEvaluation& best = run.state.best;
  return run.job.train.patience > 0 && best.measure == *measure && best.since >= run.job.train.patience;
}

}  // namespace zero
