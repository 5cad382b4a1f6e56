// TrainingLoop: the steps of a run, and what is done between them: steps are told, judged, evaluated and saved, and a
// request to stop is heard.
//
//   TrainingLoop loop(run, stop);
//   const int signal = loop.run(opening.resumes());      // 0: the last step is done
//
// What is done between two steps is done at the same ones on every rank. A step that health refuses may take the run
// back to a checkpoint: `run.state` says where it is, and other samples follow. Collective. Throws Error where the
// health rules end the run.
#pragma once

#include <functional>
#include <optional>

#include "app/data/prefetcher.h"
#include "app/train/run/run.h"
#include "app/train/steps/served_step.h"
#include "app/train/steps/training_step.h"
#include "app/train/watch/stop_signal.h"

namespace zero {

class TrainingLoop {
 public:
  // The engine is attached. Both outlive it; `stop` null: nobody asks.
  TrainingLoop(Run& run, const StopSignal* stop);

  // Returns the signal that ended it before the last step, or 0. `resumed`: from a checkpoint.
  int run(bool resumed);

 private:
  struct Outcome {
    int signal = 0;             // that ends the run
    bool ends = false;          // early: evaluations do not improve
    bool draws_others = false;  // other samples follow than were drawn: it was rewound, or ranks take other shares
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
  const StopSignal* stop_;
  TrainingStep training_;
  std::optional<ServedStep> served_;  // of a server
};

}  // namespace zero
