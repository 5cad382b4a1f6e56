#include "zero/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>

#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/checkpoint/published_folder.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kUnfinished = ".tmp", kSetAside = ".old.tmp";

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

// Returns the path without the ending that set_aside() adds, if nothing else has that name; otherwise the path.
fs::path named(const fs::path& path) {
  const std::string whole = path.string();
  if (!whole.ends_with(kSetAside)) return path;
  fs::path name = whole.substr(0, whole.size() - kSetAside.size());
  std::error_code ignored;
  return fs::exists(name, ignored) ? path : name;
}

}  // namespace

fs::path CheckpointFolder::path_of(std::int64_t step) const {
  return path_ / fmt::format("{}{:08}", kPrefix, step);
}

std::vector<CheckpointFolder::Entry> CheckpointFolder::list() const {
  std::vector<Entry> entries;
  for (const fs::path& path : paths_in(path_)) {
    std::error_code ignored;
    const fs::path name = named(path);
    const auto step = step_of(name.filename().string());
    if (step && fs::is_directory(path, ignored)) entries.push_back({*step, name});
  }
  std::ranges::sort(entries, std::greater(), &Entry::step);
  return entries;
}

void CheckpointFolder::keep(std::int64_t count, std::int64_t newest, std::int64_t spared) const {
  std::exception_ptr first;
  const auto remove = [&](const fs::path& path) {  // an error does not keep the others from being removed
    try {
      remove_checkpoint(path, calls_);
    } catch (const IoError&) {
      if (first == nullptr) first = std::current_exception();
    }
  };
  std::int64_t kept = 0;
  std::vector<fs::path> left;
  for (const Entry& entry : list()) {
    if (entry.step > newest || kept++ < count || entry.step == spared) {
      left.push_back(entry.path);
    } else {
      remove(entry.path);
    }
  }
  for (const fs::path& path : paths_in(path_)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kUnfinished)) continue;
    if (std::ranges::find(left, named(path)) != left.end()) continue;  // the only copy of a kept checkpoint
    const auto step = step_of(name.substr(0, name.find('.')));
    if (!step || *step <= newest) remove(path);
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace zero
