// TrainingStep: one step of a run: micro-batches forward and backward, then the update.
//
//   TrainingStep training(job, task, engine, world.rank(), shares, timeline.recorder());
//   const TakenStep taken = training.take(state, batches, [&](double loss) { return health.limits(loss); });
//   taken.metrics.loss          // this rank's, weighted by its share of the samples: the mean over ranks is the step's
//   taken.report.skipped        // nothing was updated
//
// Each loss is divided by the number of micro-batches, unless a step has leaves: then the update divides by their
// number. The randomness of a micro-batch is a function of seed, step, micro-batch and rank, or of seed, step and leaf
// (micro_batch_seed.h). The metrics lack the memory and traffic of the engine: RunMeter adds them.
// Collective.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "zero/base/process/timeline.h"
#include "zero/plan/units/leaves.h"

#include "app/data/batches.h"
#include "app/data/prefetcher.h"
#include "app/report/files/metrics_log.h"
#include "app/train/engine/engine_of_run.h"
#include "app/train/folder/run_checkpoints.h"
#include "app/train/tasks/task.h"
#include "app/train/train_job.h"
#include "app/train/watch/gradient_noise.h"
#include "app/train/watch/sample_shares.h"

namespace zero {

struct TakenStep {
  StepMetrics metrics;
  StepReport report;
};

// Returns the leaves of a step; empty: none. `ranks`: number of ranks that compute.
std::optional<Leaves> leaves_of(const TrainJob& job, int ranks);
// Returns the leaf of each micro-batch of a rank; an idle micro-batch repeats the rank's last leaf.
LeavesOfRank leaves_of_rank(const TrainJob& job, int ranks, int rank);

// Returns the metrics of the next step that do not depend on its result. `ranks`: number of ranks that compute.
StepMetrics metrics_of(const TrainJob& job, const Task& task, const RunState& done, int ranks);

class TrainingStep {
 public:
  // All arguments must outlive the object. `recorder`: null if there is no timeline. `rank`: this rank's number among
  // the ranks that compute.
  TrainingStep(const TrainJob& job, Task& task, EngineOfRun engine, int rank, const SampleShares& shares,
               Timeline* recorder);

  // Returns the limits of the update for this rank's loss of the step.
  using Limits = std::function<StepLimits(double loss)>;
  // Computes the step after those that are `done`, with the next `accumulate` batches.
  TakenStep take(const RunState& done, Prefetcher& batches, const Limits& limits);

 private:
  const Batch& next_batch(Prefetcher& batches);
  void run_micro_batch(std::int64_t micro, const Batch& batch, StepMetrics& metrics);
  void run_passes(PipelineEngine& pipeline, Prefetcher& batches, StepMetrics& metrics);
  std::uint64_t seed_of(std::int64_t step, std::int64_t micro) const;
  void add_noise(std::int64_t step);
  StepReport update(double lr, const StepLimits& limits);

  const TrainJob& job_;
  Task& task_;
  EngineOfRun engine_;
  int rank_;
  const SampleShares& shares_;
  Timeline* recorder_;
  int num_averaged_;                    // number of ranks whose gradients are averaged
  std::optional<GradientNoise> noise_;  // on the first of these ranks
  std::optional<Leaves> leaves_;        // of a step; empty: none
  std::vector<double> leaf_losses_;     // of this step, by micro-batch
};

}  // namespace zero
