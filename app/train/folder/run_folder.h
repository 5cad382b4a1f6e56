// RunFolder: the folder of one run, and the rule that a run is never overwritten by accident.
//
//   RunFolder folder("runs/shakespeare");
//   folder.require_free(/*overwrite=*/false);      // every rank: changes nothing
//   folder.require_writable();                     // one rank: before anything is begun
//   folder.create();                               // one rank, after all ranks have checked
//   folder.reopen(500, {});                         // or: to continue after step 500
//
// Local. Throws ConfigError under "run.dir" for a folder that contains a run, cannot be created or cannot be written.
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

  // True if it contains a run, finished or not.
  bool holds_run() const;
  void require_free(bool overwrite) const;
  // Throws unless create() can create the folder, or write into it. It tries, and leaves no file.
  void require_writable() const;
  // Creates the folder; a new folder is accessible only to this user. Removes the files of an old run: configuration,
  // plan, metrics, event files, weights, report and checkpoints, nothing else (remove_model_files() removes the files
  // beside the weights). `launches`: the names of this launch (RunLaunch), a line each.
  void create(std::string_view launches = "") const;
  // Removes the log of pushes, if it is there.
  void remove_pushes() const;
  // Prepares the folder to continue after `step`: removes the report and weights of an earlier end, and metrics of
  // later steps.
  void reopen(std::int64_t step, const ComesAgain& again) const;
  // True if the launch with this name created the folder. Restarted ranks then continue in it. False if `launch` is
  // empty.
  bool is_of(std::string_view launch) const;
  // True if a run of this configuration ended here without a report or a checkpoint. It may then be overwritten.
  bool was_cut_short(std::string_view config) const;
  // Returns the steps of the run that has ended here; -1: none has.
  std::int64_t finished_steps() const;
  // Returns the number of evaluations after the best one in a run that ended early; -1: no such run ended here.
  std::int64_t evaluations_without_improvement() const;
  // Throws ConfigError unless the weights of a finished run are here.
  void require_finished() const;

  const std::filesystem::path& path() const { return files_.folder; }
  const RunFiles& files() const { return files_; }

 private:
  RunFiles files_;
};

}  // namespace zero
