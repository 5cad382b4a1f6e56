// ScratchFile: a file without a name, so that no file is left behind however the process ends.
//
//   require_room(std::array{ScratchSize{"/nvme0", bytes}});    // before any file is made
//   const ScratchFile file("/nvme0", bytes);
//   pread(file.get(), ...);                                    // whole pages into page-aligned memory
//
// All of it is preallocated: a full disk shows here, not in the middle of a run. Reads and writes go past the page
// cache (O_DIRECT) where the file system can; where it cannot, or has no disk below it (tmpfs), through it, with a
// warning.
//
// Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "zero/base/error.h"
#include "zero/base/file.h"
#include "zero/memory/file_calls.h"

namespace zero {

struct ScratchSize {
  std::string folder;
  std::int64_t bytes = 0;
};

// Throws ConfigError under "zero.disk" (a folder in which no file can be made) or "zero.disk_memory" (less free than
// asked for; sizes in one file system are added up), IoError where the system does not say how much is free. `ranks`: of
// this machine, each of which makes files of these sizes.
void require_room(std::span<const ScratchSize> sizes, const FileCalls& calls = FileCalls::kernel(), int ranks = 1);

// What is wrong with a folder, for the user: of an errno value that says why no file can be made there.
ConfigError refusal_of(const std::string& folder, int error);

class ScratchFile {
 public:
  // Throws IoError.
  ScratchFile(const std::string& folder, std::int64_t bytes, const FileCalls& calls = FileCalls::kernel());

  int get() const { return file_.get(); }
  bool direct() const { return direct_; }  // past the page cache
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  FileDescriptor file_;
  bool direct_ = false;
};

}  // namespace zero
