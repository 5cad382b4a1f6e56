// RunOpening: reads a run's folder and decides: the run is done, or it is resumed, or it begins.
//
//   auto lock = hold_folder(folder, comm);                     // no other run is active there
//   RunOpening opening(job, folder, checkpoints, comm);        // reads
//   if (opening.is_done()) return say(opening.why_done());     // after require_same_model()
//   opening.require_may_start(say);
//   if (opening.resumes()) ...                                 // from a checkpoint; else at step 0
//
// Rank 0 reads, and all ranks decide alike; the folder does not change. Collective, unless a function says otherwise.
// Throws ConfigError under "run.dir".
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

// Returns `job` with the places of the ranks of a run with servers, and in a replay with this rank's threads in the
// recorded run.
//
// Rank 0 reads the recorded run before anything is begun, and all ranks of `run`, also workers, refuse it alike.
// Otherwise a rank that only sees the others end would leave a flight record in the folder. Collective if there are
// servers, but Local for a replacement. Throws ConfigError under "--replay" for a run that cannot be replayed here with
// the same bits.
TrainJob as_recorded(TrainJob job, Communicator& run);

// Returns `job` with the words of its texts, if they are known: those of the run that continues, or those beside
// model.init (run_words.h). Rank 0 reads them for all ranks.
//
// Collective if the job learns words, but Local for a replacement, which reads the words of the run. Throws what
// find_words() throws.
TrainJob with_words(TrainJob job, Communicator& run);

// Locks the folder on rank 0 while the result lives; the result is empty on the others. If another run is active there,
// every rank throws.
std::optional<RunLock> hold_folder(const RunFolder& folder, Communicator& comm);

// Local. Throws ConfigError under "train.steps" if `step`, after which a run continues, is greater than train.steps.
void require_steps_left(const TrainJob& job, std::int64_t step);

class RunOpening {
 public:
  // Only reads the arguments; all of them must outlive the object. Throws ConfigError if --overwrite is given to some
  // ranks only, or would delete a run in a restart that keeps runs (RunLaunch).
  RunOpening(const TrainJob& job, const RunFolder& folder, RunCheckpoints& checkpoints, Communicator& comm);

  // Local. is_done(): the run has done its last step and has its report. resumes(): it continues from a checkpoint.
  bool is_done() const { return is_done_; }
  bool resumes() const { return resumes_; }
  // Local. The names of this launch on all machines, for RunFolder::create().
  const std::string& launches() const { return launches_; }

  // Local, on rank 0. Returns lines that say why the run is done; the second line has the configuration's changes
  // since.
  std::string why_done() const;

  // Throws if the folder's run has another model. The error is in the configuration's words, before any state is read.
  // Loading finds differences that a configuration does not show (a vocabulary from the data).
  void require_same_model() const;

  // Throws unless the data has the classes with which the run began, in their order: other numbers would mean other
  // classes.
  void require_same_classes(const std::vector<std::string>& class_names) const;

  // Throws unless the run may continue or begin here, and the folder can be written. `say` prints a line if it begins
  // again.
  void require_may_start(const std::function<void(const std::string&)>& say) const;

 private:
  void require_no_run() const;

  const TrainJob& job_;
  const RunFolder& folder_;
  Communicator& comm_;
  std::string launches_;
  bool begun_by_us_ = false;  // begun by an earlier attempt of this launch
  bool cut_short_ = false;    // an earlier run of this configuration ended before its first checkpoint
  bool resumes_ = false;
  bool is_done_ = false;
  bool ended_early_ = false;
};

}  // namespace zero
