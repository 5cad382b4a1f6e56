// The folder of one run, and the rule that a run is never overwritten by accident.
//
//   RunFolder folder("runs/shakespeare");
//   folder.require_free(/*overwrite=*/false);      // every rank: looks, changes nothing
//   folder.create();                               // one rank, when all have looked
//
// Local. Throws ConfigError under "run.dir" for a folder that holds a run, cannot be made or cannot be written.
#pragma once

#include <filesystem>

namespace zero {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  // Does it hold a run, finished or not?
  bool holds_run() const;
  void require_free(bool overwrite) const;
  // Makes the folder, and removes the files of an old run from it: those named below and nothing else.
  void create() const;
  // ConfigError unless a finished run's weights are here.
  void require_finished() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path plan() const { return path_ / "plan.txt"; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path model() const { return path_ / "model.safetensors"; }
  std::filesystem::path report() const { return path_ / "report.json"; }

 private:
  std::filesystem::path path_;
};

}  // namespace zero
