// TrainingLoop: the steps of a run, and the work between them: log, judge, evaluate, save, and react to signals.
//
//   TrainingLoop loop(run);
//   const int signal = loop.run(opening.resumes());      // 0: the last step is done
//
// Every rank does the work between two steps at the same steps. If health refuses a step, the run may return to a
// checkpoint: `run.state` has the step, and other samples follow. Collective. Throws Error if the health rules end the
// run.
#pragma once

#include <functional>
#include <optional>

#include "app/data/prefetcher.h"
#include "app/train/run/parts/run.h"
#include "app/train/steps/served_step.h"
#include "app/train/steps/training_step.h"

namespace zero {

class TrainingLoop {
 public:
  // The engine must be attached. `run` must outlive the object.
  explicit TrainingLoop(Run& run);

  // Returns the signal that ended the run before its last step, or 0. `resumed`: the run continues from a checkpoint.
  int run(bool resumed);
  // True if the run stopped after the last of TrainJob::saves, before its end.
  bool pauses() const { return pauses_; }

 private:
  struct Outcome {
    int signal = 0;             // signal that ends the run
    bool ends = false;          // the run ends early: evaluations do not improve
    bool draws_others = false;  // drawn samples are not used: the run was rewound, or shares changed
  };
  Outcome run_until_others_are_drawn();
  Outcome run_served();
  TakenStep run_step(const std::function<TakenStep()>& take);
  TrainingStep::Limits limits();
  bool share_anew(const StepMetrics& metrics);
  Outcome after_step();
  Outcome catch_up();
  int exchange();

  Run& run_;
  TrainingStep training_;
  std::optional<ServedStep> served_;  // on a server
  bool pauses_ = false;
};

}  // namespace zero
