// MetricsLog: writes metrics.jsonl: a line of JSON for each logged step and each evaluation.
//
//   MetricsLog log(files.metrics);
//   log.add(step_metrics);              // kept
//   log.flush();                        // written, in one write(2)
//   log.take_back(40);                  // removes the lines of steps after 40
//
// Lines are kept in memory until flush(), so a fast step never waits for a disk. Local; not thread-safe.
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

// Returns seconds since 1970, the time in every line.
double unix_seconds();

// Bytes that moved between a rank's tiers in a step: states, and over the link also activations.
struct StepTransfers {
  PerLowerTier<DiskTraffic> requests;  // none of a tier that is memory
  LinkTraffic link;
};

// A step as measured by one rank; `loss` is the mean over ranks.
struct StepMetrics {
  std::int64_t step = 0;  // counted from 1
  double time = 0;        // seconds since 1970
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  std::optional<double> loss_scale;  // set if losses have a scale
  double seconds = 0;
  double tokens = 0;                // tokens of all ranks; samples if samples are rows
  bool has_tokens = true;           // false: samples are rows
  std::int64_t samples_so_far = 0;  // samples of the run and all ranks, including this step
  double tokens_so_far = 0;
  double forward = 0;  // seconds, including gathers and waits; the same for `backward`
  double backward = 0;
  WorkSeconds work;
  PerTier<MemoryCount> memory;  // of this rank, just before the first update
  std::int64_t sent_bytes = 0;
  std::optional<std::int64_t> sent_between_copies;  // part of sent_bytes; set if there are copies of the model
  std::optional<std::int64_t> sent_between_groups;  // part of sent_bytes; set if there are secondary groups
  std::optional<ServedSteps> served;                // set in a run with servers
  std::optional<StepTransfers> transfers;           // set if a state is off the device, or data crossed the link
  RankFigures mine{};                               // figures of this rank in this step
  std::vector<RankFigures> workers{};               // on the head of servers: figures of each worker in this step
  // Figures of each rank, with workers after servers. Set if there are several ranks, and they exchanged their figures
  // after this step (StepHistory). They cover all steps since the last step with such figures.
  std::vector<RankFigures> ranks{};
};

// Adds the bytes that outer steps sent to the metrics of a step, or to rank 0's numbers in its line.
void add_sent(StepMetrics& metrics, const SentBytes& by_outer_steps);
void add_sent(std::string& line, const SentBytes& by_outer_steps);

struct EvaluationMetrics {
  std::int64_t step = 0;
  double time = 0;
  double val_loss = 0;
  std::optional<double> accuracy;    // for classification: 0 to 1
  std::optional<double> perplexity;  // for a language model: exp(val_loss)
  bool averaged = false;             // evaluated with the weights' moving average? then "val_loss_ema" etc.
  double seconds = 0;
};

// A checkpoint on disk, with the sums of its states (zero/checkpoint/image/state_sums.h). Its line may follow lines of
// later steps, because training continues while a checkpoint is written.
struct SavedMetrics {
  std::int64_t step = 0;
  double time = 0;
  std::string state_sums;  // "exp_avg 8c1f03b29d77e650, parameter 02d9a4c5e1b86f37"
};
// The "event" of its line.
inline constexpr std::string_view kSavedEvent = "saved";

// Return a line without a line break. Numbers that are not finite become null.
std::string to_json_line(const StepMetrics& metrics);
std::string to_json_line(const EvaluationMetrics& metrics);
std::string to_json_line(const SavedMetrics& metrics);

// The lines of a step that a run writes again if it continues after that step. So they are removed.
struct ComesAgain {
  bool evaluation = false;
  bool rewinds = false;  // events of rewinds to the step
};
// Returns the complete lines of `text` for steps up to `step`, without the lines of `step` that come again.
std::string lines_until(std::string_view text, std::int64_t step, const ComesAgain& again);

class MetricsLog {
 public:
  // Opens the file, and appends to its lines.
  explicit MetricsLog(std::filesystem::path path);
  template <typename Metrics>
  void add(const Metrics& metrics) {
    pending_ += to_json_line(metrics);
    pending_ += '\n';
  }
  // Writes the lines. If it throws IoError, all lines are still kept, and the next flush() first restores the file as
  // it was before this call.
  void flush();
  // Replaces the line of that step; the file changes with the next flush(). No-op if there is no such line. Throws
  // IoError.
  void replace(const StepMetrics& metrics) { replace(metrics.step, to_json_line(metrics)); }
  void replace(std::int64_t step, const std::string& line);
  // Removes the lines of later steps: kept lines at once, lines in the file with the next flush().
  void take_back(std::int64_t step);
  std::size_t kept_bytes() const { return pending_.size(); }

 private:
  std::filesystem::path path_;
  std::optional<AppendFile> file_;  // always set
  std::uintmax_t written_ = 0;      // bytes of complete lines in the file
  std::optional<std::int64_t> back_to_;
  std::string pending_;
};

}  // namespace zero
