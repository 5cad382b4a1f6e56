// RunHealth: what becomes of a run whose health rules refuse a step, or find that replicas differ: it is told and goes
// on, goes back to a checkpoint, or ends.
//
//   RunHealth health(options, max_skipped_steps, samples_per_step, state, folder, checkpoints, log);
//   const StepReport report = engine.step(lr, health.limits(loss));
//   if (health.judge(engine, report)) ...             // rewound: `state` says where the run is; other samples follow
//   if (health.judge_replicas(engine)) ...            // before anything is saved
//
// A rewind loads the newest checkpoint, of which the run keeps everything but its place in the data: that is behind the
// bad step's samples and `rewind_batches` steps' more, and never before what an earlier rewind to the same checkpoint
// left out. After max_rewinds of them to one checkpoint the run ends, as after max_skipped_steps steps in a row without
// an update.
//
// Collective; the ranks decide alike, and `state` changes on all of them. Throws Error where the run is to end, with
// what is to be done; what was told until then is written.
#pragma once

#include <limits>
#include <string>

#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_folder.h"
#include "app/train/run/run_log.h"
#include "app/train/watch/health.h"
#include "app/train/watch/health_event.h"

namespace zero {

class RunHealth {
 public:
  // All of them outlive it.
  RunHealth(const HealthOptions& options, std::int64_t max_skipped_steps, std::int64_t samples_per_step,
            RunState& state, const RunFolder& folder, RunCheckpoints& checkpoints, RunLog& log);

  // Local. Of the step that comes next.
  StepLimits limits(double loss) { return limits_ = policy_.limits(loss); }
  // Each step once, when `state` has counted it. True: the run was rewound.
  bool judge(Attachment& engine, const StepReport& report);
  bool judge_replicas(Attachment& engine);
  // At most once a step, and not at all where they are not to be compared.
  ReplicaCheck compare_replicas(Attachment& engine);

  // The newest checkpoint that is whole, up to this step, becomes the engine's, the state's and the log's. Throws
  // IoError where there is none.
  Resumed take_newest_checkpoint(Attachment& engine, std::int64_t newest = std::numeric_limits<std::int64_t>::max());

 private:
  bool act(Attachment& engine, HealthEvent event, std::int64_t samples);
  void rewind(Attachment& engine, HealthEvent event, std::int64_t samples);
  [[noreturn]] void stop(Attachment& engine, const HealthEvent& event, const std::string& why);
  std::int64_t num_skipped_in_a_row() const;  // up to this step

  HealthOptions options_;
  HealthPolicy policy_;
  std::int64_t max_skipped_steps_;
  std::int64_t samples_per_step_;
  RunState& state_;
  const RunFolder& folder_;
  RunCheckpoints& checkpoints_;
  RunLog& log_;
  StepLimits limits_;
  ReplicaCheck replicas_;
  std::int64_t num_judged_ = 0;       // steps, those that were taken back too
  std::int64_t compared_ = -1;        // when num_judged_ was this
  std::int64_t rewound_to_ = -1;      // the step of a checkpoint
  std::int64_t rewound_samples_ = 0;  // where the run then went on
  std::int64_t rewinds_here_ = 0;
};

}  // namespace zero
