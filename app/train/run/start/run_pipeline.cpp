#include "app/train/run/start/run_pipeline.h"

#include <limits>

#include "app/data/batches.h"

namespace zero {

void attach_run_pipeline(Run& run, const FirstValues& values, std::int64_t checkpoint_bytes) {
  const TrainJob& job = run.job;
  AttachOptions options = job.attach;
  options.timeline = run.timeline.recorder();
  if (values.init != nullptr) options.weights = values.init->source();
  options.awaits_load = values.awaits_load;
  options.max_skipped_steps = std::numeric_limits<int>::max();  // RunHealth counts them, and logs before a run ends
  run.model.pipeline.emplace(attach_pipeline(run.model.task->module(), run.ranks.world, options, job.pipeline));
  const TrainingBatches drawn(*run.data.corpus.train, job.data.order, job.train.seed, run.data.shares.grid());
  Batch batch;
  drawn.fill(0, batch);
  run.model.pipeline->prepare([&](int) { return run.model.task->loss(batch); });
  RunCheckpoints::require_room(job.checkpoint, run.folder.files().checkpoints.path(), checkpoint_bytes,
                               [&run](const std::string& line) { run.say(line); });
  report_states(run);
}

}  // namespace zero
