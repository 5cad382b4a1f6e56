// MemoryFiles: memory files that the launcher holds for its ranks, by name.
//
//   for (const std::string& name : kept.names("flight/")) write(read_memory_file(kept.find(name)));
//
// Invariant: every descriptor is a memory file, so that nothing read from it blocks, and there are never more than the
// limit. Their bytes are those of a rank that may have died while it wrote, and a rank may still shorten them: read
// them with pread, never through a mapping, and trust nothing.
//
// Local; not thread-safe. Functions that can be refused give the reason, or "".
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "zero/base/file.h"

namespace zero {

class MemoryFiles {
 public:
  static constexpr std::size_t kMostNames = 4096;

  explicit MemoryFiles(std::size_t most_names = kMostNames) : most_names_(most_names) {}

  // Ascending.
  std::vector<std::string> names(std::string_view prefix = "") const;
  // Ours to read, not to close; -1 when nothing has that name.
  int find(std::string_view name) const;
  std::size_t size() const { return files_.size(); }

  std::string put(std::string_view name, FileDescriptor file);
  std::string rename(std::string_view from, std::string_view to);
  std::string remove(std::string_view prefix);

 private:
  using Files = std::map<std::string, FileDescriptor, std::less<>>;
  // Takes out what begins with `prefix`.
  Files extract(std::string_view prefix);

  std::size_t most_names_;
  Files files_;
};

// The first `bytes` of a kept file, fewer when it has fewer. Throws IoError.
std::string read_memory_file(int file, std::size_t bytes);

}  // namespace zero
