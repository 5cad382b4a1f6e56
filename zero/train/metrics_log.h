// metrics.jsonl: one object a line, in the words of the run folder's contract.
//
//   MetricsLog log(folder.metrics());
//   log.add(step_metrics);              // kept
//   log.flush();                        // written, in one write(2)
//
// Lines are kept until flush() so that a fast step never waits for a disk. Local; not thread-safe.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "zero/base/file.h"
#include "zero/engine/options.h"

namespace zero {

// Seconds since 1970, as every line has them.
double unix_seconds();

// A step as one rank saw it; `loss` is the mean over ranks.
struct StepMetrics {
  std::int64_t step = 0;  // counted from 1
  double time = 0;        // seconds since 1970
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  double seconds = 0;
  double tokens = 0;   // of all ranks; samples where there are no tokens
  double forward = 0;  // seconds; gathering and waiting inside them are part of it, as of backward
  double backward = 0;
  PhaseSeconds phases;
  MemoryCount memory;  // just before the first update
  std::int64_t sent_bytes = 0;
};

struct EvaluationMetrics {
  std::int64_t step = 0;
  double time = 0;
  double val_loss = 0;
  double seconds = 0;
};

// One line each, without the line break. Numbers that are not finite become null.
std::string to_json_line(const StepMetrics& metrics);
std::string to_json_line(const EvaluationMetrics& metrics);

class MetricsLog {
 public:
  explicit MetricsLog(std::filesystem::path path) : path_(std::move(path)), file_(path_) {}
  template <typename Metrics>
  void add(const Metrics& metrics) {
    pending_ += to_json_line(metrics);
    pending_ += '\n';
  }
  // Throws IoError: then all lines are still kept, and the file is as it was.
  void flush();
  std::size_t kept_bytes() const { return pending_.size(); }

 private:
  std::filesystem::path path_;
  AppendFile file_;
  std::string pending_;
};

}  // namespace zero
