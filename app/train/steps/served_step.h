// ServedStep: one step of a run with servers, as its servers see it: until every worker has done one more clock.
//
//   ServedStep served(job, task, engine, communicator, folder, state.step);
//   TakenStep taken = served.take(state, [&](double loss) { return health.limits(loss); });
//   served.dismiss(state.step);                   // the run ends: workers that are there leave
//
// With sync.mode async the updates of a step are as many as came in it, and its loss is their mean. A step in which none
// came (a worker was lost) has the loss of the one before. Collective over the servers. Throws CommError.
#pragma once

#include <optional>

#include "zero/serve/push_server.h"

#include "app/train/folder/push_log.h"
#include "app/train/folder/run_folder.h"
#include "app/train/steps/training_step.h"

namespace zero {

class ServedStep {
 public:
  // All outlive it. `begun`: clocks that are done.
  ServedStep(const TrainJob& job, const Task& task, Attachment& engine, Communicator& run, const RunFolder& folder,
             std::int64_t begun);

  TakenStep take(const RunState& done, const TrainingStep::Limits& limits);
  // `done`: clocks. Where they are all of the run's steps the log of events gets its end.
  void dismiss(std::int64_t done);

 private:
  const TrainJob& job_;
  const Task& task_;
  Attachment& engine_;
  Communicator& run_;
  PushServer& server_;
  double last_loss_;
  std::optional<PushLog> log_;  // the head's
};

}  // namespace zero
