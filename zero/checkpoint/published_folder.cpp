#include "zero/checkpoint/published_folder.h"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/files/file.h"
#include "zero/checkpoint/engines_folder.h"
#include "zero/checkpoint/image/manifest.h"
#include "zero/checkpoint/image/same_outcome.h"
#include "zero/checkpoint/safetensors/block_file.h"

namespace zero {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void sync_folder(const fs::path& folder, const FileCalls& calls) {
  const int fd = calls.open(folder.string(), O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw IoError(folder.string(), "open", -fd);
  const FileDescriptor owned(fd);
  if (const int result = calls.sync(fd); result < 0) throw IoError(folder.string(), "fsync", -result);
}

}  // namespace

bool is_part_of_checkpoint(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == kManifestName || (name.starts_with("rank-") && name.ends_with(".safetensors"));
}

PublishedFolder::PublishedFolder(fs::path path, const FileCalls& calls)
    : path_(path.has_filename() ? std::move(path) : path.parent_path()),
      temporary_(path_.string() + ".tmp"),
      calls_(calls) {}

void PublishedFolder::make(const std::function<bool(const fs::path&)>& is_part) const {
  std::error_code ignored;
  if (fs::exists(fs::symlink_status(path_, ignored))) {
    const bool is_folder = fs::is_directory(fs::symlink_status(path_, ignored));  // not a link to one
    if (!is_folder || !std::ranges::all_of(paths_in(path_), is_part))
      throw IoError(path_.string(), "save", EEXIST, "it is not a checkpoint");
  }
  const fs::path parent = folder_of(path_);
  if (const int result = calls_.make_folder(parent.string()); result == 0) {
    sync_folder(folder_of(parent), calls_);
  } else if (result != -EEXIST) {
    throw IoError(parent.string(), "make the folder", -result);
  }
  restore_replaced();
  remove_checkpoint(temporary_, calls_);  // of a save that did not end
  if (const int result = calls_.make_folder(temporary_.string()); result < 0)
    throw IoError(temporary_.string(), "make the folder", -result);
}

// A save may have been killed between its two renames. Then the path is missing, and the replaced folder is whole.
void PublishedFolder::restore_replaced() const {
  const fs::path old = set_aside(path_);
  std::error_code ignored;
  const auto is_there = [&ignored](const fs::path& file) { return fs::exists(fs::symlink_status(file, ignored)); };
  if (is_there(path_) || !(is_there(old / kManifestName) || is_there(old / kEnginesName))) return;
  if (const int result = calls_.rename(old.string(), path_.string()); result < 0)
    throw IoError(old.string(), fmt::format("rename to {}", path_.string()), -result);
  sync_folder(folder_of(path_), calls_);
}

void PublishedFolder::publish() {
  sync_folder(temporary_, calls_);
  take_the_name();
}

void PublishedFolder::remove() const {
  if (put_back_) remove_checkpoint(temporary_, calls_);
}

// From here to there the folder around is synced, or things are put back as they were.
void PublishedFolder::take_the_name() {
  const std::string from = temporary_.string(), to = path_.string(), old = set_aside(path_).string();
  std::error_code ignored;
  const bool replaces = fs::exists(path_, ignored);
  bool exchanged = replaces;
  int result = replaces ? calls_.exchange(from, to) : calls_.rename(from, to);
  if (replaces && (result == -EINVAL || result == -ENOSYS)) {  // a file system that cannot
    exchanged = false;
    remove_checkpoint(old, calls_);  // of a save that was killed after it had its name
    result = calls_.rename(to, old);
    if (result == 0 && (result = calls_.rename(from, to)) < 0) calls_.rename(old, to);
  }
  if (result < 0) throw IoError(to, replaces ? "replace atomically" : "rename to this name", -result);
  try {
    sync_folder(folder_of(path_), calls_);
  } catch (const IoError&) {
    put_back_ = (exchanged ? calls_.exchange(from, to) : calls_.rename(to, from)) == 0;
    if (replaces && !exchanged) calls_.rename(old, to);
    throw;
  }
  if (!replaces) return;
  const std::string left = failure_of([&] { remove_checkpoint(exchanged ? from : old, calls_); });
  if (!left.empty()) ZERO_LOG(warn, "the replaced checkpoint is still in its folder: {}", left);
}

std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return paths;
  if (error) throw IoError(folder.string(), "look at", error.value());
  if (status.type() != fs::file_type::directory) return paths;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    paths.push_back(entry->path());
  if (error) throw IoError(folder.string(), "list", error.value());
  return paths;
}

void remove_checkpoint(const fs::path& folder, const FileCalls& calls) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return;
  const auto unlink = [&calls](const fs::path& file) {
    const int result = calls.unlink(file.string());
    if (result < 0 && result != -ENOENT) throw IoError(file.string(), "remove", -result);
  };
  // The manifest goes first: after a kill no reader takes the rest for a checkpoint.
  unlink(folder / kEnginesName);
  unlink(folder / kManifestName);
  for (const fs::path& path : paths_in(folder))
    is_folder_of_engine(path) ? remove_checkpoint(path, calls) : unlink(path);
  if (const int result = calls.remove_folder(folder.string()); result < 0)
    throw IoError(folder.string(), "remove", -result);
}

}  // namespace zero
