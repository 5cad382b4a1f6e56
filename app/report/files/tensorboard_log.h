// TensorboardLog: the metrics of a run, as scalars that TensorBoard draws.
//
//   TensorboardLog log(files.tensorboard, {.after_step = 500, .config = config_toml});
//   log.add(step_metrics);              // kept
//   log.flush();                        // written
//   log.take_back(40);                  // readers drop step 41 and later ones
//
// Tags: train/{loss,lr,grad_norm,loss_scale}, speed/{tokens_per_second,rows_per_second,step_seconds},
// memory/{device,host,disk}_bytes (of this rank), validation/{val_loss,val_accuracy,val_perplexity}. Values of the
// average of the weights have the same tags with _ema. Their second words are keys of metrics.jsonl. The configuration
// is a text. Local; not thread-safe. Throws IoError as EventFile does.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "app/report/files/event_file.h"
#include "app/report/files/metrics_log.h"

namespace zero {

struct TensorboardStart {
  std::int64_t after_step = 0;  // the next step comes after this one; 0: a new run
  std::string_view config;      // TOML; empty: not shown
};

class TensorboardLog {
 public:
  // Creates a file in the folder, for a session that begins after `after_step`. Readers drop later steps of earlier
  // sessions.
  TensorboardLog(const std::filesystem::path& folder, const TensorboardStart& start);

  void add(const StepMetrics& step);
  void add(const EvaluationMetrics& evaluation);
  void take_back(std::int64_t step);
  void flush() { file_.flush(); }
  std::size_t kept_bytes() const { return file_.kept_bytes(); }

 private:
  EventFile file_;
};

}  // namespace zero
