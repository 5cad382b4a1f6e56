// RunEnd: writes the results of a run: weights, report and summary at its end; a checkpoint if it is stopped.
//
//   RunEnd end(run, start_run(run, opening));
//   const RunReport report = end.finish();                      // the last step is done
//   const StoppedRun stopped = end.stop(SIGTERM);               // or: it is not
//   const StoppedRun paused = end.pause();                      // or: it should not be done (`zero verify`)
//
// Collective; the engine is abandoned. Throws IoError if rank 0 cannot write. The message says where the result of the
// completed training is.
#pragma once

#include <cstdint>
#include <string>

#include "app/report/report.h"
#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_folder.h"
#include "app/train/run/parts/run.h"
#include "app/train/weights/weights.h"

namespace zero {

struct StoppedRun {
  bool saved = false;        // a checkpoint of its last step is on disk
  bool save_failed = false;  // this save, an earlier save, or the last metrics could not be written
};

class RunEnd {
 public:
  // `weights`: rank 0's files for the weights, with reserved disk space.
  RunEnd(Run& run, RunWeights weights);

  RunReport finish();
  StoppedRun stop(int signal);
  // Ends after the last of TrainJob::saves: completes the save of that step and the metrics, and writes nothing else.
  StoppedRun pause();

 private:
  RunReport write_all();
  // Returns false if a config.json that describes no model is in the way.
  bool describe_weights(DType dtype) const;
  void write_sample();       // for a language model
  void write_predictions();  // for a model of classes or numbers; Collective
  void fill(RunReport& report);
  bool save_before_stop();
  std::string missing_average() const;  // text for an error; empty: none is missing

  Run& run_;
  RunWeights weights_;
  bool weights_written_ = false;
  bool average_written_ = false;
};

// Local. Returns where the training result is if the end of the run failed, as text after "training is over, all 6
// steps; ". `weights_written`: model.safetensors is complete.
std::string where_training_is(const RunFolder& folder, const RunCheckpoints& checkpoints, bool saves,
                              bool weights_written, std::int64_t steps);

}  // namespace zero
