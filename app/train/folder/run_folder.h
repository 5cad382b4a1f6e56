// RunFolder: the folder of one run, and the rule that a run is never overwritten by accident.
//
//   RunFolder folder("runs/shakespeare");
//   folder.require_free(/*overwrite=*/false);      // every rank: looks, changes nothing
//   folder.require_writable();                     // one rank: before anything is begun
//   folder.create();                               // one rank, when all have looked
//   folder.reopen(500, {});                         // or: to go on after step 500
//
// Local. Throws ConfigError under "run.dir" for a folder that holds a run, cannot be made or cannot be written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "app/report/files/metrics_log.h"
#include "app/train/folder/run_files.h"

namespace zero {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : files_(std::move(path)) {}

  // Does it hold a run, finished or not?
  bool holds_run() const;
  void require_free(bool overwrite) const;
  // Can create() make the folder, or write into it? Tries, and leaves nothing behind.
  void require_writable() const;
  // Makes the folder, for this user alone where it is new, and removes what an old run left in it: configuration, plan,
  // metrics, event files, weights, report and checkpoints. Nothing else.
  void create(std::string_view launch = "") const;
  // Makes it ready to go on after a step: the report and weights of an end that came, and metrics of later steps, go.
  void reopen(std::int64_t step, const ComesAgain& again) const;
  // Was it made by this launch? Then ranks that were started again go on in it. `launch` empty: no.
  bool is_of(std::string_view launch) const;
  // Did a run of this configuration end here without a report or a checkpoint? Then nothing of it is worth keeping.
  bool was_cut_short(std::string_view config) const;
  // Steps of the run that has ended here; -1: none has.
  std::int64_t finished_steps() const;
  // Evaluations after the best one of a run that ended early; -1: no such run ended here.
  std::int64_t evaluations_without_improvement() const;
  // ConfigError unless a finished run's weights are here.
  void require_finished() const;

  const std::filesystem::path& path() const { return files_.folder; }
  const RunFiles& files() const { return files_; }

 private:
  RunFiles files_;
};

}  // namespace zero
