// RunRecords: values that a run has recorded about its steps, as `zero verify` compares them.
//
//   const RunRecords records = read_records("runs/x/metrics.jsonl");
//   records.steps.at(20).at("loss")         // exactly as the run computed it
//   records.saved.at(20)                    // the sums of the states of the checkpoint after step 20
//
// Lines are untrusted: a line that is not as a run writes it is listed in `damaged`. A value that is null is NaN. A
// missing file is empty. Values; Local. Throws IoError if the file cannot be read.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "zero/checkpoint/image/state_sums.h"

namespace zero::cli {

// Values that every execution of a step or an evaluation has alike. The others are times, bytes and figures of ranks.
inline constexpr std::array kStepValues{"loss", "grad_norm", "lr", "loss_scale", "samples", "tokens"};
inline constexpr std::array kEvaluationValues{"val_loss",     "val_accuracy",     "val_perplexity",
                                              "val_loss_ema", "val_accuracy_ema", "val_perplexity_ema"};

using RecordedValues = std::map<std::string, double, std::less<>>;

struct DamagedLine {
  std::int64_t line = 0;  // counted from 1
  std::int64_t step = 0;  // of the line, or of the step line before it
  std::string reason;     // "is not JSON"
};

struct Rewind {
  std::int64_t back_to = 0, from = 0;  // steps
};

struct RunRecords {
  std::map<std::int64_t, RecordedValues> steps;                     // by step: values of kStepValues
  std::map<std::int64_t, std::vector<RecordedValues>> evaluations;  // by step, in the order of their lines
  std::map<std::int64_t, StateSums> saved;                          // by step; the last line counts
  std::vector<Rewind> rewinds;
  std::vector<DamagedLine> damaged;

  std::int64_t last_step() const { return steps.empty() ? 0 : steps.rbegin()->first; }
};

RunRecords read_records(const std::filesystem::path& metrics);

}  // namespace zero::cli
