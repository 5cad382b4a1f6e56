// PublishedFolder: a folder that takes its name at one moment, in place of an older folder of that name.
//
//   PublishedFolder folder("runs/x/checkpoints/step-00000500", calls);
//   folder.make(is_part_of_checkpoint);      // step-00000500.tmp, empty
//   ... files are written into folder.temporary(), and synced
//   folder.publish();                        // at any instant a reader finds the old folder, the new one, or none
//
// A file system that cannot exchange names, such as NFS, has an instant without either; the old folder is then at
// PATH.old.tmp (set_aside()). If a kill leaves it there, readers take it, and the next make() gives it its name back.
// Local; one rank does it. Throws IoError: the path is as it was.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "zero/memory/io/file_calls.h"

namespace zero {

class PublishedFolder {
 public:
  PublishedFolder(std::filesystem::path path, const FileCalls& calls);

  const std::filesystem::path& path() const { return path_; }
  const std::filesystem::path& temporary() const { return temporary_; }

  // Throws if the path is taken by something else than a folder of parts.
  void make(const std::function<bool(const std::filesystem::path&)>& is_part) const;
  void publish();
  // Removes an unfinished one, unless it is the older folder.
  void remove() const;

 private:
  void restore_replaced() const;
  void take_the_name();

  std::filesystem::path path_, temporary_;
  const FileCalls& calls_;
  bool put_back_ = true;  // the folder at PATH.tmp is the new one
};

// A file of a checkpoint, by its name.
bool is_part_of_checkpoint(const std::filesystem::path& file);

// The paths in a folder; none if the folder is not there. Throws IoError.
std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder);

// Removes a folder, the files in it, and the folders of single engines in it (zero/checkpoint/engines_folder.h): a
// checkpoint has nothing else. Throws IoError. No folder: no-op.
void remove_checkpoint(const std::filesystem::path& folder, const FileCalls& calls = FileCalls::kernel());

}  // namespace zero
