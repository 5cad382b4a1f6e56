// MetricsLog: metrics.jsonl, one JSON object a line, one for each step that is logged and each evaluation.
//
//   MetricsLog log(files.metrics);
//   log.add(step_metrics);              // kept
//   log.flush();                        // written, in one write(2)
//   log.take_back(40);                  // what is said of later steps goes
//
// Lines are kept until flush() so that a fast step never waits for a disk. Local; not thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/files/file.h"
#include "zero/engine/options/step_report.h"

#include "app/report/files/rank_figures.h"
#include "app/report/files/served_report.h"

namespace zero {

// Seconds since 1970, as every line has them.
double unix_seconds();

// What crossed between a rank's tiers in a step: of states, over the link of activations too.
struct StepTransfers {
  DiskTraffic disk;
  LinkTraffic link;
};

// A step as one rank saw it; `loss` is the mean over ranks.
struct StepMetrics {
  std::int64_t step = 0;  // counted from 1
  double time = 0;        // seconds since 1970
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  std::optional<double> loss_scale;  // where losses have one
  double seconds = 0;
  double tokens = 0;                // of all ranks; samples where there are no tokens
  bool has_tokens = true;           // false: samples are rows
  std::int64_t samples_so_far = 0;  // of the run, this step's too, over all ranks
  double tokens_so_far = 0;
  double forward = 0;  // seconds; gathering and waiting inside them are part of it, as of backward
  double backward = 0;
  WorkSeconds work;
  MemoryCount memory;           // on the device, just before the first update
  std::int64_t host_bytes = 0;  // of this rank on the other tiers, at the same time
  std::int64_t disk_bytes = 0;
  std::int64_t sent_bytes = 0;
  std::optional<std::int64_t> sent_between_copies;  // of it, where there are copies of the model
  std::optional<std::int64_t> sent_between_groups;  // of it, where there are secondary groups
  std::optional<ServedSteps> served;                // of a run with servers
  std::optional<StepTransfers> transfers;           // where anything lies below the device, or crossed the link
  RankFigures mine{};                               // of this rank, in this step
  std::vector<RankFigures> workers{};               // of a run with servers, on their head: the same of each worker
  // By rank, workers behind servers, of the steps since the one before that has them: where ranks have told each other
  // after this step (StepHistory), and there are several.
  std::vector<RankFigures> ranks{};
};

// What outer steps sent counts in the line of a step.
void add_sent(StepMetrics& metrics, const SentBytes& by_outer_steps);

struct EvaluationMetrics {
  std::int64_t step = 0;
  double time = 0;
  double val_loss = 0;
  std::optional<double> accuracy;    // of a task of classes: 0 to 1
  std::optional<double> perplexity;  // of a language model: exp(val_loss)
  bool averaged = false;             // of the weights' moving average: "val_loss_ema", "val_accuracy_ema"
  double seconds = 0;
};

// One line each, without the line break. Numbers that are not finite become null.
std::string to_json_line(const StepMetrics& metrics);
std::string to_json_line(const EvaluationMetrics& metrics);

// What of a step itself comes again when a run goes on after it, so that its lines go, too.
struct ComesAgain {
  bool evaluation = false;
  bool rewinds = false;  // to it
};
// The whole lines of `text` that are of steps up to `step`.
std::string lines_until(std::string_view text, std::int64_t step, const ComesAgain& again);

class MetricsLog {
 public:
  // At the end of what is there.
  explicit MetricsLog(std::filesystem::path path);
  template <typename Metrics>
  void add(const Metrics& metrics) {
    pending_ += to_json_line(metrics);
    pending_ += '\n';
  }
  // Throws IoError: then all lines are still kept, and the next flush() begins with the file as it was before this one.
  void flush();
  // Instead of the line of that step that is there, with the next flush(). No-op if there is none. Throws IoError.
  void replace(const StepMetrics& metrics);
  // Lines of later steps: those that are kept at once, those in the file with the next flush().
  void take_back(std::int64_t step);
  std::size_t kept_bytes() const { return pending_.size(); }

 private:
  std::filesystem::path path_;
  std::optional<AppendFile> file_;  // always there
  std::uintmax_t written_ = 0;      // bytes of whole lines in it
  std::optional<std::int64_t> back_to_;
  std::string pending_;
};

}  // namespace zero
