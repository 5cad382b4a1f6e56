// AuditPlan: the steps of a run that are executed again, from which state, and with which configuration.
//
//   AuditPlan plan = plan_audit({.run = "runs/x", .first = 500, .last = 1000, .overrides = overrides});
//   plan.start                    // 500: the checkpoint after step 500 is loaded
//   plan.saves                    // {1000}: the states after these steps are compared
//   plan.config                   // that of the run, with the overrides
//
// Steps A..B begin with the states after step A and end with those after step B. The start is the last undamaged
// checkpoint at or before A, or the initial weights if there is none. Without A and B: from the first kept checkpoint
// to the last.
//
// Reads the run, and verifies every byte of its checkpoints in the range; writes nothing. Local. Throws ConfigError for
// a path that is no run, for steps that the run has not, and for an override that changes the bits (app/config/bits.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "zero/checkpoint/image/manifest.h"

#include "app/cli/verify/run_records.h"
#include "app/config/options/config.h"
#include "app/config/options/value.h"

namespace zero::cli {

struct AuditRequest {
  std::filesystem::path run;
  std::optional<std::int64_t> first, last;
  std::optional<std::int64_t> ranks;     // -n
  std::vector<Setting> overrides;        // of the command line
  std::vector<std::string> environment;  // "ZERO_COMM_TRANSPORT=in_process"
};

// A checkpoint of the run.
struct KeptCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;
  Manifest manifest;
  std::string damage;  // empty: every byte is as it was saved
};

struct AuditPlan {
  std::filesystem::path run;
  std::int64_t first = 0, last = 0;  // A and B
  std::int64_t start = 0;            // step of the loaded checkpoint; 0 without one: the initial weights
  std::filesystem::path start_path;  // of that checkpoint; empty: the initial weights
  std::vector<std::int64_t> saves;   // steps whose states are compared, ascending; the last is B
  std::vector<KeptCheckpoint> kept;  // checkpoints from `start` to B, ascending, also damaged ones
  RunRecords records;
  Config config;  // for the ranks; run.dir is the override, or that of the run
  std::int64_t ranks = 1;
  bool has_run_dir = false;         // true: the user named a folder for the execution
  std::vector<std::string> places;  // recorded places of ranks, each once; empty: not recorded
  std::string data;                 // mark of the samples when the run was saved; empty: not recorded
  bool is_done = false;             // the run has ended
  std::vector<std::string> notes;   // for the user: what cannot be compared, and why
};

AuditPlan plan_audit(const AuditRequest& request);

// Reads "A..B", "A.." and "..B". Throws ConfigError under "--steps".
void parse_steps(const std::string& text, AuditRequest& request);

}  // namespace zero::cli
