// ServedStep: one step of a run with servers, on a server: it ends when every worker has done one more clock.
//
//   ServedStep served(job, task, engine, communicator, folder, state.step);
//   TakenStep taken = served.take(state, [&](double loss) { return health.limits(loss); });
//   served.dismiss(state.step);                   // the run ends: the remaining workers leave
//
// With sync.mode async a step has all updates that were made during it, and its loss is their mean. A step without
// updates (a worker was lost) has the loss of the step before. Collective over the servers. Throws CommError.
#pragma once

#include <optional>

#include "zero/serve/push_server.h"

#include "app/train/folder/push_log.h"
#include "app/train/folder/run_folder.h"
#include "app/train/steps/training_step.h"

namespace zero {

class ServedStep {
 public:
  // All arguments must outlive the object. `begun`: number of clocks that are done.
  ServedStep(const TrainJob& job, const Task& task, Engine& engine, Communicator& run, const RunFolder& folder,
             std::int64_t begun);

  TakenStep take(const RunState& done, const TrainingStep::Limits& limits);
  // Lets the remaining workers leave. `done`: number of clocks. If the run has done all its steps, the log of events
  // gets its last line.
  void dismiss(std::int64_t done);

 private:
  const TrainJob& job_;
  const Task& task_;
  Engine& engine_;
  Communicator& run_;
  PushServer& server_;
  double last_loss_;
  std::optional<PushLog> log_;  // on the head
};

}  // namespace zero
