// RunLog: the log of a run's steps: lines for the user, metrics.jsonl, TensorBoard, and the history.
//
//   RunLog log(folder, progress, {log_every, steps}, TimeLeft(steps), comm);
//   log.begin();                                             // the folder is ready: rank 0 writes from here on
//   log.draw({.after_step = 500, .config = toml});           // also for TensorBoard
//   log.add(metrics);                                        // a step as this rank saw it: Local, writes nothing
//   if (log.exchange_due()) signal = log.exchange(pending);  // Collective: logs the steps since the last exchange
//   log.take_back(40);                                       // the run is at step 40 again
//   log.finish();                                            // writes everything
//
// Local, unless a function says otherwise; the folder and the progress outlive it. If rank 0 cannot write metrics, it
// reports this once, keeps them, and writes them with the next metrics. It throws IoError if they exceed 16 MiB, or
// cannot be written at the end.
#pragma once

#include <optional>
#include <string>

#include "app/report/files/metrics_log.h"
#include "app/report/files/tensorboard_log.h"
#include "app/report/screen/progress.h"
#include "app/report/screen/time_left.h"
#include "app/report/step_history.h"
#include "app/train/folder/run_folder.h"
#include "app/train/watch/health_event.h"

namespace zero {

class RunLog {
 public:
  RunLog(const RunFolder& folder, Progress& progress, StepHistory history, TimeLeft time_left, Communicator& comm);

  void begin();
  // Also writes event files from now on. Call it on rank 0, after begin(). Throws IoError if they cannot be created.
  void draw(const TensorboardStart& start);
  void add(const StepMetrics& mine) { history_.add(mine); }
  bool exchange_due() const { return history_.exchange_due(); }
  // Collective. Exchanges and logs the steps since the last call. Returns the signal to stop of any rank, or 0.
  int exchange(int stop_signal);
  // Collective. Adds bytes that outer steps have sent since the last step was logged to that step's line, which an
  // earlier process may have written. No-op if no rank sent any.
  void add_to_last_step(const SentBytes& by_outer_steps);
  // A checkpoint of `step` was loaded, which has rank 0's line of that step. begin() restores the line, because the
  // earlier process may have added to it after the save. Empty: saved by an earlier version.
  void resume_at(std::int64_t step, std::string line);
  // Returns rank 0's line of `step` if it is the newest logged step, or the loaded one; else an empty text.
  std::string line_of(std::int64_t step) const;
  // Logs an evaluation, with the current time.
  void add(EvaluationMetrics metrics);
  void report(HealthEvent event);
  // Logs a checkpoint on disk, with the current time.
  void add(SavedMetrics metrics);
  // Removes the logged lines of steps after `step`. The history is restored separately.
  void take_back(std::int64_t step);
  void finish();

  StepHistory& history() { return history_; }

 private:
  bool is_first() const { return comm_.rank() == 0; }
  void report(const StepMetrics& step, bool is_newest);
  ProgressValues values_of(const StepMetrics& step) const;
  void flush();
  void write();

  const RunFolder& folder_;
  Progress& progress_;
  StepHistory history_;
  TimeLeft time_left_;
  Communicator& comm_;
  bool waits_ = false;                 // true if lines are kept that could not be written
  std::optional<MetricsLog> metrics_;  // on rank 0
  std::optional<TensorboardLog> tensorboard_;
  std::optional<StepMetrics> newest_;  // the newest logged step
  std::int64_t resumed_step_ = 0;      // the step of the loaded checkpoint, and its line
  std::string resumed_line_;
  StepMetrics since_line_;  // sums since the last printed line; `step` is their number of steps
};

}  // namespace zero
