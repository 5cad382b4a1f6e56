// Audit: the differences between a run's records and those of its second execution.
//
//   const Audit audit = compare_with_records(plan, "runs/x-verify-Qw3k9a");
//   audit.differences.front().step       // the first step that differs
//
// Values; Local. Throws IoError if a file of the second execution cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "app/cli/verify/audit_plan.h"

namespace zero::cli {

struct Difference {
  std::int64_t step = 0;
  std::string subject;   // "loss", "val_loss", "checkpoint", "exp_avg", "line 33 of metrics.jsonl"
  std::string recorded;  // value as decimal and as exact hexadecimal; empty: `detail` is the whole difference
  std::string found;
  std::string detail;  // the exact place, or a consequence; may be empty
};

struct Audit {
  std::int64_t num_steps = 0, num_evaluations = 0, num_states = 0;  // that were compared
  std::vector<std::int64_t> checkpoints;                            // steps whose states were compared
  std::vector<Difference> differences;                              // by step
  std::string conclusion;                                           // for people; empty: no difference
  std::string data;                                                 // how the samples have changed; empty: not known to
  std::vector<std::string> not_compared;
};

// Asks `stops` before it reads a checkpoint. After true the result is incomplete.
Audit compare_with_records(
    const AuditPlan& plan, const std::filesystem::path& execution,
    const std::function<bool()>& stops = [] { return false; });

}  // namespace zero::cli
