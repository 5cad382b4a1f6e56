// RunOpening: what a run's folder holds when the ranks come to it, and so what they do there: nothing, as the run is
// done; go on with it; or begin.
//
//   auto lock = hold_folder(folder, comm);                     // no other run goes on there
//   RunOpening opening(job, folder, checkpoints, comm);        // looks
//   if (opening.is_done()) return say(opening.why_done());     // after require_same_model()
//   opening.require_may_start(say);
//   if (opening.resumes()) ...                                 // from a checkpoint; else at step 0
//
// Rank 0 looks, and all ranks decide alike; nothing of the folder changes. Collective, unless said otherwise. Throws
// ConfigError under "run.dir".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "zero/comm/communicator.h"

#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_folder.h"
#include "app/train/folder/run_lock.h"
#include "app/train/train_job.h"

namespace zero {

// `job` with the places where the ranks of a run with servers compute, and in a replay with the threads that this rank had in
// the recorded run. Rank 0 reads that run, before anything is begun, and all ranks of `run`, workers too, refuse alike: a rank
// that only saw the others end would leave a flight record in the folder. Collective if there are servers, but not of a
// replacement. Throws ConfigError under "--replay" for a run that cannot be replayed here with the same bits.
TrainJob as_recorded(TrainJob job, Communicator& run);

// On rank 0, as long as the result lives; on the others empty. Where another run goes on there, every rank throws.
std::optional<RunLock> hold_folder(const RunFolder& folder, Communicator& comm);

// Of a run that goes on after `step`. Local. Throws ConfigError under "train.steps" where it has no such steps.
void require_steps_left(const TrainJob& job, std::int64_t step);

class RunOpening {
 public:
  // All but the communicator are looked at; all outlive it. Throws ConfigError where --overwrite is given to some ranks
  // alone.
  RunOpening(const TrainJob& job, const RunFolder& folder, RunCheckpoints& checkpoints, Communicator& comm);

  // Local. Has the run come to its last step, with its report? Does it go on from a checkpoint?
  bool is_done() const { return is_done_; }
  bool resumes() const { return resumes_; }

  // Local, on rank 0. Of a run that is done: lines that say so, the second with what is configured otherwise now.
  std::string why_done() const;

  // A checkpoint has the states of one model: another is another run. Said in the configuration's words, before any
  // state is read; what a configuration does not tell (a vocabulary that is the data's), loading does.
  void require_same_model() const;

  // The data names the classes with which the run began, in their order: other numbers would be other classes.
  void require_same_classes(const std::vector<std::string>& class_names) const;

  // May it go on, or begin, here, and can the folder be written? `say` takes a line where it begins again.
  void require_may_start(const std::function<void(const std::string&)>& say) const;

 private:
  const TrainJob& job_;
  const RunFolder& folder_;
  Communicator& comm_;
  bool begun_by_us_ = false;  // by an earlier attempt of the launch that this one is of
  bool cut_short_ = false;    // an earlier run of this configuration, before its first checkpoint
  bool resumes_ = false;
  bool is_done_ = false;
  bool ended_early_ = false;
};

}  // namespace zero
