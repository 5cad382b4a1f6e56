#include "app/train/run/worker_run.h"

#include "zero/comm/board/arrivals.h"
#include "zero/comm/collectives.h"
#include "zero/comm/group.h"
#include "zero/serve/role/worker_role.h"
#include "zero/torch/activations/activation_store.h"
#include "zero/torch/engine_control.h"

#include "app/data/batches.h"
#include "app/data/prefetcher.h"
#include "app/report/same_configuration.h"
#include "app/train/steps/training_step.h"
#include "app/train/tasks/model_kind.h"

namespace zero {
namespace {

// Computes consecutive clocks from the worker's clock on. Returns if a quorum has left clocks out, because other
// samples follow then.
void run_clocks(const TrainJob& job, const Corpus& corpus, const SampleShares& shares, TrainingStep& training,
                const PushWorker& worker) {
  const std::int64_t samples = samples_per_step(job.train, static_cast<int>(shares.samples().size()));
  RunState done{.step = worker.clock(), .samples = worker.clock() * samples};
  const TrainingBatches drawn(*corpus.train, job.data.order, job.train.seed, shares.grid(), done.samples);
  Prefetcher batches(0, (job.train.steps - done.step) * job.train.accumulate,
                     [&](std::int64_t i, Batch& batch) { drawn.fill(i, batch); });
  while (!worker.is_over() && worker.clock() == done.step) {
    training.take(done, batches, [](double loss) { return StepLimits{.loss = loss}; });
    ++done.step;
    done.samples += samples;
  }
}

}  // namespace

void share_is_done(Communicator& run, bool is_done) {
  all_gather_value(run, is_done ? 1 : 0);
}

TrainResult run_worker(const TrainJob& job, World& world) {
  Communicator& run = world.communicator();
  const bool is_first = !is_replacement(run);
  if (is_first) open_group(run, {}, "");  // the servers open their group
  Corpus corpus = open_corpus(job);
  const auto task = make_task(job.model, corpus.shape(), job.train.seed);
  if (is_first && all_gather_value(run, 0).front() == 1) return {.was_done = true};
  if (is_first) require_same_configuration(run, job.config_hash, job.config_text);
  if (ActivationStore* activations = task->activations()) activations->open();
  AttachOptions options = job.attach;
  options.awaits_load = true;  // the servers have the values
  Engine engine = attach(tensors_of(task->module()), world, std::move(options));
  PushWorker& worker = *worker_of(engine.control().role());
  const SampleShares shares(job.train.share, job.train.batch, job.attach.sync.num_workers(world.size()),
                            job.attach.sync.worker_of(world.rank()));
  TrainingStep training(job, *task, engine, job.attach.sync.worker_of(world.rank()), shares, nullptr);
  worker.set_end(job.train.steps);
  worker.set_configuration(job.config_hash);
  worker.begin();
  while (!worker.is_over()) run_clocks(job, corpus, shares, training, worker);
  engine.abandon();
  return {.is_worker = true};
}

}  // namespace zero
