// RunEnd: what a run leaves: after its last step weights, a report and a summary; after a request to stop a checkpoint.
//
//   RunEnd end(run, start_run(run, opening));
//   const RunReport report = end.finish();                      // the last step is done
//   const StoppedRun stopped = end.stop(SIGTERM);               // or: it is not
//
// Collective; the engine is abandoned. Throws IoError where rank 0 cannot write, with where the training that is over
// can be found.
#pragma once

#include <cstdint>
#include <string>

#include "app/report/report.h"
#include "app/train/folder/run_checkpoints.h"
#include "app/train/folder/run_folder.h"
#include "app/train/run/run.h"
#include "app/train/weights/weights.h"

namespace zero {

struct StoppedRun {
  bool saved = false;        // where it stopped is on disk
  bool save_failed = false;  // that, or an earlier save, or the last metrics, could not be written
};

class RunEnd {
 public:
  // `weights`: rank 0's files for them, with their room on the disk.
  RunEnd(Run& run, RunWeights weights);

  RunReport finish();
  StoppedRun stop(int signal);

 private:
  RunReport write_all();
  // False where a config.json that describes no model is in the way.
  bool describe_weights(DType dtype) const;
  void write_sample();       // of a language model
  void write_predictions();  // of a model of classes or numbers; Collective
  void fill(RunReport& report);
  bool save_before_stop();
  std::string missing_average() const;  // words for an error; empty: none is missing

  Run& run_;
  RunWeights weights_;
  bool weights_written_ = false;
  bool average_written_ = false;
};

// Local. Where the training of a run whose end failed can be found, as words behind "training is over, all 6 steps; ".
// `weights_written`: model.safetensors is there.
std::string where_training_is(const RunFolder& folder, const RunCheckpoints& checkpoints, bool saves,
                              bool weights_written, std::int64_t steps);

}  // namespace zero
