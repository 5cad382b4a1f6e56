#include "app/report/files/event_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "zero/base/error/error.h"

#include "app/report/files/event.h"

namespace zero {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kPrefix)) found.push_back(entry->path());
  }
  if (error && error != std::errc::no_such_file_or_directory) throw IoError(folder.string(), "list", error.value());
  return found;
}

// Returns the seconds in the file's name; 0: none.
std::int64_t time_of(const fs::path& file) {
  const std::string name = file.filename().string();
  std::int64_t time = 0;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), time);
  return time;
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0' ? name.data() : "localhost";
}

void make_folder(const fs::path& folder) {
  const std::error_code error = make_private_folder(folder);
  if (error) throw IoError(folder.string(), "make", error.value());
}

}  // namespace

EventFile::EventFile(const fs::path& folder, double time) {
  make_folder(folder);
  auto seconds = static_cast<std::int64_t>(std::floor(time));
  for (const fs::path& file : event_files(folder)) seconds = std::max(seconds, time_of(file) + 1);
  path_ = folder / fmt::format("{}{:010}.{}.{}.0", kPrefix, seconds, host_name(), ::getpid());
  add(version_event(time));
  flush();
}

void EventFile::add(std::string_view event) {
  pending_ += framed(event);
}

void EventFile::flush() {
  if (pending_.empty()) return;
  if (!file_) file_.emplace(path_);
  std::error_code error;  // cuts off a partial record of an earlier failure
  if (fs::file_size(path_, error) > written_ && !error) fs::resize_file(path_, written_, error);
  if (error) throw IoError(path_.string(), "set the size", error.value());
  try {
    file_->append(pending_);
  } catch (const IoError&) {
    std::error_code ignored;  // readers would lose a partial record and all records after it
    fs::resize_file(path_, written_, ignored);
    throw;
  }
  written_ += pending_.size();
  pending_.clear();
}

void remove_event_files(const fs::path& folder) {
  std::error_code error;
  for (const fs::path& file : event_files(folder)) {
    fs::remove(file, error);
    if (error) throw IoError(file.string(), "remove", error.value());
  }
  fs::remove(folder, error);  // does nothing if the folder has other files
}

}  // namespace zero
