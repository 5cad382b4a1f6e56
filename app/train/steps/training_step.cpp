#include "app/train/steps/training_step.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/Context.h>

#include "zero/base/process/clock.h"
#include "zero/torch/pipeline/pipelined_module.h"

#include "app/train/tasks/micro_batch_seed.h"

namespace zero {
namespace {

// If copies train apart, each copy averages only the gradients of its own ranks.
int averaged_ranks(const TrainJob& job, int ranks) {
  if (!job.attach.local) return ranks;
  return job.attach.group == 0 ? 1 : job.attach.group;
}

}  // namespace

TrainingStep::TrainingStep(const TrainJob& job, Task& task, EngineOfRun engine, int rank, const SampleShares& shares,
                           Timeline* recorder)
    : job_(job),
      task_(task),
      engine_(engine),
      rank_(rank),
      shares_(shares),
      recorder_(recorder),
      num_averaged_(averaged_ranks(job, static_cast<int>(shares.samples().size()))),
      leaves_(leaves_of(job, static_cast<int>(shares.samples().size()))) {
  if (job.train.gradient_noise > 0 && rank % num_averaged_ == 0)
    noise_.emplace(task.module(), job.train.gradient_noise, job.train.seed);
}

std::optional<Leaves> leaves_of(const TrainJob& job, int ranks) {
  if (job.train.leaves == 0) return std::nullopt;
  return Leaves(static_cast<int>(job.train.leaves), ranks, job.attach.reduce);
}

LeavesOfRank leaves_of_rank(const TrainJob& job, int ranks, int rank) {
  const std::optional<Leaves> leaves = leaves_of(job, ranks);
  if (!leaves) return {};
  LeavesOfRank of_rank{.count = leaves->count()};
  for (int micro = 0; micro < leaves->passes(); ++micro)
    of_rank.leaves.push_back(leaves->leaf(rank, std::min(micro, leaves->computed(rank) - 1)));
  return of_rank;
}

StepMetrics metrics_of(const TrainJob& job, const Task& task, const RunState& done, int ranks) {
  const std::int64_t samples = samples_per_step(job.train, ranks);
  StepMetrics metrics{.step = done.step + 1,
                      .lr = lr_at(job.schedule, done.step),
                      .tokens = static_cast<double>(samples * task.tokens_per_sample()),
                      .has_tokens = task.has_tokens(),
                      .samples_so_far = done.samples + samples};
  metrics.tokens_so_far = static_cast<double>(metrics.samples_so_far * task.tokens_per_sample());
  return metrics;
}

TakenStep TrainingStep::take(const RunState& done, Prefetcher& batches, const Limits& limits) {
  TakenStep taken{.metrics = metrics_of(job_, task_, done, static_cast<int>(shares_.samples().size()))};
  StepMetrics& metrics = taken.metrics;
  const double begin = monotonic_seconds();
  if (PipelineEngine* const pipeline = engine_.pipeline()) {
    run_passes(*pipeline, batches, metrics);
  } else {
    for (std::int64_t micro = 0; micro < job_.train.accumulate; ++micro)
      run_micro_batch(micro, next_batch(batches), metrics);
  }
  StepLimits bounds = limits(metrics.loss);
  bounds.leaf_losses = std::exchange(leaf_losses_, {});
  taken.report = update(metrics.lr, bounds);
  if (leaves_) metrics.loss = taken.report.loss;
  metrics.seconds = monotonic_seconds() - begin;
  metrics.time = unix_seconds();
  metrics.grad_norm = taken.report.grad_norm;
  metrics.loss_scale = taken.report.loss_scale;
  metrics.work = engine_.take_work_seconds();
  if (!shares_.are_equal())
    metrics.mine.samples = static_cast<double>(shares_.samples()[static_cast<std::size_t>(rank_)]);
  return taken;
}

const Batch& TrainingStep::next_batch(Prefetcher& batches) {
  const TimedSpan waiting(recorder_, Activity::kWaitData);
  return batches.next();
}

StepReport TrainingStep::update(double lr, const StepLimits& limits) {
  const TimedSpan span(recorder_, Activity::kStep);
  return engine_.step(lr, limits);
}

void TrainingStep::add_noise(std::int64_t step) {
  const double loss_scale = engine_.engine().scaled(torch::ones({})).item<double>();
  noise_->next(step, num_averaged_ * loss_scale);
}

// Passes of several micro-batches interleave, so all batches of the step are read first.
void TrainingStep::run_passes(PipelineEngine& pipeline, Prefetcher& batches, StepMetrics& metrics) {
  const double parts = leaves_ ? 1 : static_cast<double>(job_.train.accumulate);
  std::vector<Batch> of_step;
  for (std::int64_t micro = 0; micro < job_.train.accumulate; ++micro) of_step.push_back(next_batch(batches));
  const auto loss_of = [&](int micro) {
    if (job_.model.dropout > 0) at::manual_seed(seed_of(metrics.step - 1, micro));
    return task_.loss(of_step[static_cast<std::size_t>(micro)]);
  };
  std::vector<double> losses = pipeline.passes(loss_of, parts);
  const PipelineSeconds seconds = pipeline.module().take_seconds();
  metrics.forward += seconds.forward;
  metrics.backward += seconds.backward;
  if (leaves_) {
    leaf_losses_ = std::move(losses);
  } else {
    for (const double loss : losses) metrics.loss += loss / parts;
  }
}

void TrainingStep::run_micro_batch(std::int64_t micro, const Batch& batch, StepMetrics& metrics) {
  const double parts = leaves_ ? 1 : static_cast<double>(job_.train.accumulate) / shares_.weight();
  if (job_.model.dropout > 0) at::manual_seed(seed_of(metrics.step - 1, micro));
  const double begin = monotonic_seconds();
  TimedSpan span(recorder_, Activity::kForward);
  const auto loss = task_.loss(batch);
  const double middle = monotonic_seconds();
  span.end();
  span = TimedSpan(recorder_, Activity::kBackward);
  if (noise_ && micro == job_.train.accumulate - 1) add_noise(metrics.step - 1);
  engine_.engine().scaled(parts == 1 ? loss : loss / parts).backward();
  if (noise_) noise_->none();
  metrics.forward += middle - begin;
  metrics.backward += monotonic_seconds() - middle;
  if (leaves_) {
    leaf_losses_.push_back(loss.item<double>());
  } else {
    metrics.loss += loss.item<double>() / parts;
  }
}

std::uint64_t TrainingStep::seed_of(std::int64_t step, std::int64_t micro) const {
  if (!leaves_) return micro_batch_seed(job_.train.seed, step, micro, rank_);
  return micro_batch_seed(job_.train.seed, step, leaves_->leaf(rank_, static_cast<int>(micro)), 0);
}

}  // namespace zero
