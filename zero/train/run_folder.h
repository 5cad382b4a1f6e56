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

#include "zero/checkpoint/checkpoint_folder.h"
#include "zero/report/metrics_log.h"

namespace zero {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  // Does it hold a run, finished or not?
  bool holds_run() const;
  void require_free(bool overwrite) const;
  // Can create() make the folder, or write into it? Tries, and leaves nothing behind.
  void require_writable() const;
  // Makes the folder, for this user alone where it is new, and removes the files of an old run from it: those named
  // below, checkpoints and nothing else.
  void create(std::string_view launch = "") const;
  // Makes it ready to go on after a step: the report and weights of an end that came, and metrics of later steps, go.
  void reopen(std::int64_t step, const ComesAgain& again) const;
  // Was it made by this launch? Then ranks that were started again go on in it. `launch` empty: no.
  bool is_of(std::string_view launch) const;
  // Did a run of this configuration end here without a report or a checkpoint? Then nothing of it is worth keeping.
  bool was_cut_short(std::string_view config) const;
  // Steps of the run that has ended here; -1: none has.
  std::int64_t finished_steps() const;
  // ConfigError unless a finished run's weights are here.
  void require_finished() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path plan() const { return path_ / "plan.txt"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path model() const { return path_ / "model.safetensors"; }
  std::filesystem::path averaged_model() const { return path_ / "model_ema.safetensors"; }
  std::filesystem::path report() const { return path_ / "report.json"; }
  std::filesystem::path pushes() const { return path_ / "pushes.log"; }        // of a run with servers: push_log.h
  std::filesystem::path tensorboard() const { return path_ / "tensorboard"; }  // event files
  std::filesystem::path launch() const { return path_ / ".launch"; }           // whose ranks made it
  std::filesystem::path flight() const { return path_ / "flight"; }            // of each rank, when one failed
  CheckpointFolder checkpoints() const { return CheckpointFolder(path_ / "checkpoints"); }

 private:
  std::filesystem::path path_;
};

}  // namespace zero
