#include "app/train/run/training_loop.h"

#include <fmt/format.h>

#include "zero/plan/pipeline/pipeline_grid.h"
#include "zero/plan/units/mesh.h"

#include "app/data/batches.h"
#include "app/train/run/parts/run_evaluation.h"
#include "app/train/run/parts/run_saves.h"

namespace zero {
namespace {

// Ranks of a line read the same samples, and drop the same activations.
int data_rank_of(const Run& run) {
  return pipeline_grid_of(run.ranks.world.rank(), run.ranks.world.size(), run.job.pipeline.pipeline).data_rank;
}

}  // namespace

TrainingLoop::TrainingLoop(Run& run)
    : run_(run),
      training_(run.job, *run.model.task, run.model.trained(), data_rank_of(run), run.data.shares,
                run.timeline.recorder()) {
  if (run.ranks.servers != nullptr)
    served_.emplace(run.job, *run.model.task, *run.model.engine, run.ranks.world.communicator(), run.folder,
                    run.state.step);
}

int TrainingLoop::run(bool resumed) {
  const TrainJob& job = run_.job;
  const int holders = job.pipeline.pipeline > 1 ? run_.ranks.num_computing : run_.ranks.comm().world();
  const bool each_holds_its_own = job.attach.stage == 3 && mesh_of(holders, job.attach).copies == 1;
  if (job.health.check_replicas > 0 && (holders == 1 || each_holds_its_own))
    run_.say("health.check_replicas: no state is held by two ranks; nothing is compared");
  if (job.health.rewinds() && !resumed) save_run(run_);  // a rewind always needs a checkpoint
  Outcome outcome = resumed ? catch_up() : Outcome{};
  while (outcome.signal == 0 && !outcome.ends && run_.state.step < last_step(job)) {
    outcome = served_ ? run_served() : run_until_others_are_drawn();
    run_.records.meter.take_back(run_.state.step, run_.state.sent_by(run_.ranks.comm().rank()));
  }
  pauses_ = outcome.signal == 0 && !outcome.ends && run_.state.step < job.train.steps;
  if (served_) served_->dismiss(run_.state.step);
  return outcome.signal;
}

TrainingLoop::Outcome TrainingLoop::run_until_others_are_drawn() {
  const StepOptions& o = run_.job.train;
  const TrainingBatches drawn(*run_.data.corpus.train, run_.job.data.order, o.seed, run_.data.shares.grid(),
                              run_.state.samples,
                              leaves_of_rank(run_.job, run_.ranks.num_computing, data_rank_of(run_)));
  Prefetcher batches(0, (o.steps - run_.state.step) * o.accumulate,
                     [&](std::int64_t i, Batch& batch) { drawn.fill(i, batch); });
  Outcome outcome;
  while (outcome.signal == 0 && !outcome.ends && !outcome.draws_others && run_.state.step < last_step(run_.job)) {
    const TakenStep taken = run_step([&] { return training_.take(run_.state, batches, limits()); });
    if (run_.health.judge(run_.model.trained(), taken.report)) return {.draws_others = true};
    const bool shared_anew = share_anew(taken.metrics);
    outcome = after_step();
    outcome.draws_others = outcome.draws_others || shared_anew;
  }
  return outcome;
}

// Workers draw the samples.
TrainingLoop::Outcome TrainingLoop::run_served() {
  const TakenStep taken = run_step([this] { return served_->take(run_.state, limits()); });
  run_.records.served.run.add(*taken.metrics.served);
  run_.health.judge(run_.model.trained(), taken.report);
  return after_step();
}

TrainingStep::Limits TrainingLoop::limits() {
  return [this](double loss) { return run_.health.limits(loss); };
}

TakenStep TrainingLoop::run_step(const std::function<TakenStep()>& take) {
  const std::int64_t num_before = run_.records.meter.num_steps();
  run_.timeline.begin_step(num_before);
  TakenStep taken = take();
  run_.records.meter.complete(taken.metrics, run_.model.trained().report());
  run_.records.log.add(taken.metrics);
  ++run_.state.step;
  run_.state.samples += samples_per_step(run_.job.train, run_.ranks.num_computing);
  if (run_.timeline.end_step(num_before) && run_.job.timeline.asked)
    run_.say(fmt::format("timeline: {} (open it at https://ui.perfetto.dev)", run_.timeline.path().string()));
  run_.records.meter.count(run_.state.step, [this](const std::string& line) { run_.say(line); });
  return taken;
}

bool TrainingLoop::share_anew(const StepMetrics& metrics) {
  if (!run_.data.shares.learn(metrics.seconds - metrics.work.wait, run_.ranks.world.communicator())) return false;
  run_.say(fmt::format("step {}: from now on the ranks take {} samples of a micro-batch, by their measured speeds",
                       run_.state.step, run_.data.shares.text()));
  return true;
}

// A checkpoint may have been saved before the evaluation of its step, if a signal came between them. And the run may go
// on from the best step in memory, if it ended before that step was on disk.
TrainingLoop::Outcome TrainingLoop::catch_up() {
  const bool is_best = evaluation_is_missing(run_) && evaluate_and_compare(run_);
  const bool is_lacking = run_.state.best.step == run_.state.step && run_.checkpoints.lacks_best(run_.state.best);
  if (run_.job.checkpoint.keep_best && (is_best || is_lacking)) save_run(run_);
  return {.ends = ends_early(run_)};
}

TrainingLoop::Outcome TrainingLoop::after_step() {
  const StepOptions& o = run_.job.train;
  const std::int64_t step = run_.state.step;
  const std::int64_t every = run_.job.health.check_replicas;
  if (every > 0 && (step % every == 0 || step == o.steps) && run_.health.judge_replicas(run_.model.trained()))
    return {.draws_others = true};
  const bool evaluates = evaluates_now(run_);
  // A step is logged before its evaluation, also if the exchange is not due yet.
  const bool exchanged = run_.records.log.exchange_due() || evaluates;
  int signal = exchanged ? exchange() : 0;
  if (exchanged) run_.model.torch_memory.learn(run_.ranks.comm());
  // The last step is evaluated at the end, with all data. That result cannot be compared with the others.
  const bool is_best = evaluates && (step < o.steps || watched_measure(run_.job)) && evaluate_and_compare(run_);
  const bool ends = evaluates && ends_early(run_);
  run_.checkpoints.poll();
  const bool is_due = signal == 0 && run_.checkpoints.due(step, ends ? step : o.steps, exchanged);
  const bool to_disk = is_due || (signal == 0 && is_best && run_.job.checkpoint.keep_best);
  const bool to_memory = signal == 0 && run_.checkpoints.due_in_memory(step);
  if (!to_disk && !to_memory && !ends) return {.signal = signal};
  if (!exchanged) signal = exchange();
  if (signal != 0) return {.signal = signal};  // RunEnd saves
  if (run_.health.judge_replicas(run_.model.trained())) return {.draws_others = true};
  if (to_memory) save_run_in_memory(run_);
  if (to_disk) save_run(run_);
  return {.ends = ends};
}

int TrainingLoop::exchange() {
  return run_.records.log.exchange(run_.stop != nullptr ? run_.stop->pending() : 0);
}

}  // namespace zero
