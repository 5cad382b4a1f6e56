// RunHealth: continues, rewinds or ends a run if its health rules refuse a step or find that replicas differ.
//
//   RunHealth health(options, max_skipped_steps, samples_per_step, state, folder, checkpoints, log);
//   const StepReport report = engine.step(lr, health.limits(loss));
//   if (health.judge(engine, report)) ...             // rewound: `state` has the step; other samples follow
//   if (health.judge_replicas(engine)) ...            // before anything is saved
//
// A rewind loads the newest checkpoint, but the run continues later in the data. It leaves out the samples of the bad
// step and of `rewind_batches` more steps. Samples that an earlier rewind to the same checkpoint left out stay left
// out. The run ends after max_rewinds rewinds to one checkpoint, and after max_skipped_steps steps in a row without an
// update.
//
// Collective; all ranks decide alike, and `state` changes on all of them. Throws Error with a remedy if the run must
// end. All metrics until then are written.
#pragma once

#include <limits>
#include <string>

#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_folder.h"
#include "app/train/run/parts/run_log.h"
#include "app/train/watch/health.h"
#include "app/train/watch/health_event.h"

namespace zero {

class RunHealth {
 public:
  // All references must outlive the object.
  RunHealth(const HealthOptions& options, std::int64_t max_skipped_steps, std::int64_t samples_per_step,
            RunState& state, const RunFolder& folder, RunCheckpoints& checkpoints, RunLog& log);

  // Local. Returns the limits of the next step.
  StepLimits limits(double loss) { return limits_ = policy_.limits(loss); }
  // Judges a step. Call it once for each step, after `state` has counted it. True: the run was rewound.
  bool judge(EngineOfRun engine, const StepReport& report);
  bool judge_replicas(EngineOfRun engine);
  // Compares the replicas, at most once a step. Compares nothing if check_replicas is 0.
  ReplicaCheck compare_replicas(EngineOfRun engine);

  // Loads the newest undamaged checkpoint of at most step `newest` into the engine, the state and the log. Throws
  // IoError if there is none.
  Resumed take_newest_checkpoint(EngineOfRun engine, std::int64_t newest = std::numeric_limits<std::int64_t>::max());

 private:
  bool act(EngineOfRun engine, HealthEvent event, std::int64_t samples);
  void rewind(EngineOfRun engine, HealthEvent event, std::int64_t samples);
  [[noreturn]] void stop(EngineOfRun engine, const HealthEvent& event, const std::string& why);
  std::int64_t num_skipped_in_a_row() const;  // counted back from this step

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
  std::int64_t num_judged_ = 0;       // steps, including steps that were taken back
  std::int64_t compared_ = -1;        // num_judged_ at the last comparison
  std::int64_t rewound_to_ = -1;      // step of the checkpoint of the last rewind
  std::int64_t rewound_samples_ = 0;  // samples used or left out until then
  std::int64_t rewinds_here_ = 0;
};

}  // namespace zero
