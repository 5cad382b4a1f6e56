// CheckpointFolder: the checkpoints of one run, by step.
//
//   CheckpointFolder folder("runs/x/checkpoints");
//   folder.path_of(500)                    // runs/x/checkpoints/step-00000500
//   for (const auto& [step, path] : folder.list()) ...     // the newest first; contents are not examined
//   folder.keep(3, 500);                   // after step 500 was saved: removes all but it and the two before
//
// A name ending in .tmp is no checkpoint, except NAME.old.tmp if NAME is missing (PublishedFolder).
// It is listed as NAME, which readers find. Local; throws IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <vector>

#include "zero/memory/io/file_calls.h"

namespace zero {

class CheckpointFolder {
 public:
  struct Entry {
    std::int64_t step = 0;
    std::filesystem::path path;
    bool operator==(const Entry&) const = default;
  };

  explicit CheckpointFolder(std::filesystem::path path, const FileCalls& calls = FileCalls::kernel())
      : path_(std::move(path)), calls_(calls) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path path_of(std::int64_t step) const;
  std::vector<Entry> list() const;
  // Removes all but the newest `count` checkpoints up to the step `newest`, and the remains of unfinished saves up to
  // it. Later checkpoints stay: the run could not read them, and does not own them. Later unfinished saves also stay,
  // because another rank may have begun the next save. The checkpoint of the step `spared` also stays; -1: none.
  void keep(std::int64_t count, std::int64_t newest, std::int64_t spared = -1) const;
  void clear() const { keep(0, std::numeric_limits<std::int64_t>::max()); }

 private:
  std::filesystem::path path_;
  const FileCalls& calls_;
};

}  // namespace zero
