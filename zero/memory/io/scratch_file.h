// ScratchFile: a file without a name, so no file is left behind, however the process ends.
//
//   require_room(std::array{ScratchSize{"/nvme0", bytes}});    // before any file is created
//   const ScratchFile file("/nvme0", bytes);
//   pread(file.get(), ...);                                    // whole pages into page-aligned memory
//
// It is fully preallocated, so a full disk shows here, not during a run. Reads and writes bypass the page cache
// (O_DIRECT) if the file system allows it. If it does not, or has no disk (tmpfs), they use the page cache, with a
// warning. Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "zero/base/error/error.h"
#include "zero/base/files/file.h"
#include "zero/memory/io/file_calls.h"

namespace zero {

struct ScratchSize {
  std::string folder;
  std::int64_t bytes = 0;
};

// Throws ConfigError under "zero.disk" if no file can be created in a folder. Throws it under "zero.disk_memory" for
// too little free space: sizes on one file system are added up. Throws IoError if the system does not report free
// space. `ranks`: number of this machine's ranks, each of which creates files of these sizes.
void require_room(std::span<const ScratchSize> sizes, const FileCalls& calls = FileCalls::kernel(), int ranks = 1);

// Explains to the user an errno value that says why no file can be created in a folder.
ConfigError refusal_of(const std::string& folder, int error);

class ScratchFile {
 public:
  // Throws IoError.
  ScratchFile(const std::string& folder, std::int64_t bytes, const FileCalls& calls = FileCalls::kernel());

  int get() const { return file_.get(); }
  bool direct() const { return direct_; }  // bypasses the page cache
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  FileDescriptor file_;
  bool direct_ = false;
};

}  // namespace zero
