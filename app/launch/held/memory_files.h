// MemoryFiles: memory files that the launcher holds for its ranks, by name.
//
//   for (const std::string& name : kept.names("flight/")) write(read_memory_file(kept.find(name), bytes));
//
// Invariants: every descriptor is a memory file, so a read never blocks, and the number of files never exceeds the
// limit. Do not trust the bytes: the rank may have died during a write, and a rank may still shorten the file. Read
// them with pread, never through a mapping.
//
// Local; not thread-safe. Functions that can be refused return the reason, or "".
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/files/file.h"

namespace zero {

class MemoryFiles {
 public:
  static constexpr std::size_t kMostNames = 4096;

  explicit MemoryFiles(std::size_t most_names = kMostNames) : most_names_(most_names) {}

  // Returns the names that begin with `prefix`, ascending.
  std::vector<std::string> names(std::string_view prefix = "") const;
  // Returns a descriptor that the caller may read but not close; -1 if there is no such name.
  int find(std::string_view name) const;
  std::size_t size() const { return files_.size(); }

  std::string put(std::string_view name, FileDescriptor file);
  std::string rename(std::string_view from, std::string_view to);
  std::string remove(std::string_view prefix);

 private:
  using Files = std::map<std::string, FileDescriptor, std::less<>>;
  // Removes and returns the files whose names begin with `prefix`.
  Files extract(std::string_view prefix);

  std::size_t most_names_;
  Files files_;
};

// Returns the first `bytes` of a kept file, or all if it is shorter. Throws IoError.
std::string read_memory_file(int file, std::size_t bytes);

}  // namespace zero
