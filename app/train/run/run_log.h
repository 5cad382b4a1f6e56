// RunLog: what a run tells of its steps, in lines for the user, in metrics.jsonl and for TensorBoard, and the
// history that it keeps.
//
//   RunLog log(folder, progress, {log_every, steps}, TimeLeft(steps), comm);
//   log.begin();                                             // the folder is ready: rank 0 writes from here on
//   log.draw({.after_step = 500, .config = toml});           // for TensorBoard, too
//   log.add(metrics);                                        // a step as this rank saw it: Local, nothing is written
//   if (log.exchange_due()) signal = log.exchange(pending);  // Collective: the steps since the last time are told
//   log.take_back(40);                                       // the run is at step 40 again
//   log.finish();                                            // nothing waits any more
//
// Local, unless said otherwise; the folder and the progress outlive it. Metrics that rank 0 cannot write, it keeps and
// writes with the next; it says so once, and throws IoError when they come to 16 MiB, or when nothing comes any more.
#pragma once

#include <optional>

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
  // On rank 0, after begin(): event files, too. Throws IoError where they cannot be made.
  void draw(const TensorboardStart& start);
  void add(const StepMetrics& mine) { history_.add(mine); }
  bool exchange_due() const { return history_.exchange_due(); }
  // Collective. Returns the signal to stop of any rank, or 0.
  int exchange(int stop_signal);
  // Collective. Outer steps have sent bytes since the last step was told: its line gets them. No-op if no rank sent any.
  void add_to_last_step(const SentBytes& by_outer_steps);
  // Their time is now.
  void add(EvaluationMetrics metrics);
  void tell(HealthEvent event);
  // What was written of later steps goes; the history is restored apart.
  void take_back(std::int64_t step);
  void finish();

  StepHistory& history() { return history_; }

 private:
  bool is_first() const { return comm_.rank() == 0; }
  void tell(const StepMetrics& step, bool is_newest);
  ProgressValues values_of(const StepMetrics& step) const;
  void flush();
  void write();

  const RunFolder& folder_;
  Progress& progress_;
  StepHistory history_;
  TimeLeft time_left_;
  Communicator& comm_;
  bool waits_ = false;                 // lines are kept that could not be written
  std::optional<MetricsLog> metrics_;  // rank 0's
  std::optional<TensorboardLog> tensorboard_;
  std::optional<StepMetrics> newest_;  // that was told
  StepMetrics since_line_;             // sums since the last printed line; `step` counts
};

}  // namespace zero
