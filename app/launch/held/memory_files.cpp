#include "app/launch/held/memory_files.h"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "zero/comm/launcher/records.h"

namespace zero {
namespace {

constexpr const char* kNameRule = "a name has 1 to 200 bytes of A-Z a-z 0-9 . _ / -";

// Only memory files have seals. Other files are refused, because the launcher would keep a pipe or a socket open.
bool is_memory_file(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && fcntl(fd, F_GET_SEALS) >= 0;
}

}  // namespace

std::vector<std::string> MemoryFiles::names(std::string_view prefix) const {
  std::vector<std::string> out;
  for (auto at = files_.lower_bound(prefix); at != files_.end() && at->first.starts_with(prefix); ++at)
    out.push_back(at->first);
  return out;
}

int MemoryFiles::find(std::string_view name) const {
  const auto found = files_.find(name);
  return found == files_.end() ? -1 : found->second.get();
}

std::string MemoryFiles::put(std::string_view name, FileDescriptor file) {
  if (name.empty() || !is_memory_prefix(name)) return kNameRule;
  if (file.get() < 0) return "no descriptor came with it: the launcher may not open more (ulimit -n)";
  if (!is_memory_file(file.get())) return "is no memory file (memfd_create)";
  const auto found = files_.find(name);
  if (found == files_.end() && files_.size() >= most_names_)
    return fmt::format("{} names are kept already, and this is the limit", most_names_);
  if (found != files_.end()) {
    found->second = std::move(file);
  } else {
    files_.emplace(name, std::move(file));
  }
  return "";
}

MemoryFiles::Files MemoryFiles::extract(std::string_view prefix) {
  Files out;
  for (auto at = files_.lower_bound(prefix); at != files_.end() && at->first.starts_with(prefix);)
    out.insert(files_.extract(at++));
  return out;
}

std::string MemoryFiles::rename(std::string_view from, std::string_view to) {
  if (!is_memory_prefix(from) || !is_memory_prefix(to)) return kNameRule;
  std::size_t count = 0, longest = 0;
  for (auto at = files_.lower_bound(from); at != files_.end() && at->first.starts_with(from); ++at, ++count) {
    const std::size_t bytes = at->first.size() - from.size() + to.size();
    if (bytes == 0) return kNameRule;
    longest = std::max(longest, bytes);
  }
  if (count == 0) return "no name begins so";
  if (longest > kLongestMemoryName)
    return fmt::format("a name would have {} bytes, {} at most", longest, kLongestMemoryName);
  Files moved = extract(from);
  extract(to);
  while (!moved.empty()) {
    auto node = moved.extract(moved.begin());
    node.key() = std::string(to) + node.key().substr(from.size());
    files_.insert(std::move(node));
  }
  return "";
}

std::string MemoryFiles::remove(std::string_view prefix) {
  if (!is_memory_prefix(prefix)) return kNameRule;
  extract(prefix);
  return "";
}

std::string read_memory_file(int file, std::size_t bytes) {
  return read_at_most(file, bytes, "kept memory");
}

}  // namespace zero
