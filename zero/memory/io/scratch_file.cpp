#include "zero/memory/io/scratch_file.h"

#include <cerrno>
#include <filesystem>
#include <map>
#include <vector>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "zero/base/error/error.h"
#include "zero/base/error/log.h"
#include "zero/base/text/bytes.h"

namespace zero {
namespace {

// Opens a file that nobody else can open by name. If the file system can, it never has a name. Otherwise it is created
// and removed at once: a kill in between leaves an empty file.
int open_nameless(const std::string& folder, const FileCalls& calls) {
  const int unnamed = calls.open(folder, O_TMPFILE | O_RDWR);
  if (unnamed != -EOPNOTSUPP && unnamed != -EISDIR) return unnamed;
  for (int attempt = 0;; ++attempt) {
    const std::string path =
        (std::filesystem::path(folder) / fmt::format(".zero-scratch-{}-{}", ::getpid(), attempt)).native();
    FileDescriptor file(calls.open(path, O_CREAT | O_EXCL | O_RDWR));
    if (file.get() == -EEXIST && attempt < 1000) continue;
    if (file.get() < 0) return file.get();
    if (const int result = calls.unlink(path); result < 0) throw IoError(path, "remove", -result);
    return file.release();
  }
}

void preallocate(const std::string& folder, int fd, std::int64_t bytes, const FileCalls& calls) {
  const auto check = [&](int result) {
    if (result < 0)
      throw IoError(folder, fmt::format("preallocation of {} bytes for a scratch file", format_count(bytes)), -result);
  };
  const int result = calls.preallocate(fd, bytes);
  if (result != -EOPNOTSUPP) return check(result);
  check(calls.resize(fd, bytes));
  if (say_once(fmt::format("{} does not preallocate", folder)))
    ZERO_LOG(warn, "{}: the file system does not preallocate, so a full disk ends the run only when it writes", folder);
}

// Returns an empty text, or the reason why the page cache is used. Some file systems accept O_DIRECT but refuse its
// requests, so it tries one.
std::string leave_page_cache(int fd, std::int64_t bytes, const std::string& folder, const FileCalls& calls) {
  const int in_memory = calls.is_in_memory(fd);
  if (in_memory < 0) throw IoError(folder, "read the file system of a scratch file", -in_memory);
  if (in_memory == 1) return "the file system is in memory";
  if (const int result = calls.set_direct(fd, true); result < 0) return std::strerror(-result);
  constexpr std::int64_t kFilePage = 4096;
  alignas(kFilePage) std::array<std::byte, kFilePage> page;
  if (bytes < kFilePage) return "";
  const ssize_t result = calls.read(fd, page, 0);
  if (result == -EINVAL) {
    if (const int left = calls.set_direct(fd, false); left < 0) throw IoError(folder, "leave O_DIRECT", -left);
    return "requests of whole pages are refused";
  }
  if (result < 0 && result != -EINTR) throw IoError(folder, "first read of a scratch file", static_cast<int>(-result));
  return "";
}

std::string meaning_of_relative_paths() {
  std::error_code gone;
  const std::string here = std::filesystem::current_path(gone).native();
  return gone ? "the current folder of this process does not exist any more, and paths are relative to it"
              : "paths are relative to " + here;
}

}  // namespace

ConfigError refusal_of(const std::string& folder, int error) {
  const auto refusal = [&](std::string_view reason, std::string_view remedy) {
    return ConfigError("zero.disk", folder, reason, remedy);
  };
  switch (error) {
    case ENOENT:
      return refusal("no such folder", fmt::format("Make it, or check the spelling; {}.", meaning_of_relative_paths()));
    case ENOTDIR:
      return refusal("is not a folder", "Give a folder on the disk, not a file or a device.");
    case EACCES:
      return refusal("this user may not write to it",
                     fmt::format("Run chmod u+wx '{}', or give another folder.", folder));
    case ETIMEDOUT:
      return refusal("does not answer",
                     "Check if its disk, or the machine that it is mounted from, hangs; or give another folder.");
    default:
      return refusal(std::strerror(error), "Give another folder.");
  }
}

void require_room(std::span<const ScratchSize> sizes, const FileCalls& calls, int ranks) {
  for (const auto& [folder, bytes] : sizes) {
    if (const int result = calls.try_folder(folder); result < 0) throw refusal_of(folder, -result);
  }
  struct Asked {
    std::int64_t free_bytes = 0;
    std::int64_t bytes = 0;
    std::vector<std::string> folders{};
  };
  std::map<std::uint64_t, Asked> by_device;
  for (const auto& [folder, bytes] : sizes) {
    FileCalls::Room room;
    if (const int result = calls.find_room(folder, room); result < 0)
      throw IoError(folder, "read the free space", -result);
    Asked& asked = by_device[room.device];
    asked.free_bytes = room.free_bytes;
    asked.bytes += ranks * bytes;
    asked.folders.push_back(folder);
  }
  for (const auto& [device, asked] : by_device) {
    if (asked.bytes <= asked.free_bytes) continue;
    throw ConfigError(
        "zero.disk", fmt::format("{}", fmt::join(asked.folders, ", ")),
        fmt::format("only {} are free, and {} are needed for files{}", format_bytes(asked.free_bytes),
                    format_bytes(asked.bytes), ranks > 1 ? fmt::format(" of {} ranks", ranks) : ""),
        "Free some space, put less on disk (zero.disk_memory, or the fractions of states), or give other disks.");
  }
}

ScratchFile::ScratchFile(const std::string& folder, std::int64_t bytes, const FileCalls& calls) : folder_(folder) {
  const int fd = open_nameless(folder, calls);
  if (fd < 0) throw IoError(folder, "make a scratch file", -fd);
  file_ = FileDescriptor(fd);
  preallocate(folder, fd, bytes, calls);
  const std::string why_not = leave_page_cache(fd, bytes, folder, calls);
  direct_ = why_not.empty();
  if (!direct_ && say_once(fmt::format("{} has no O_DIRECT", folder)))
    ZERO_LOG(warn,
             "{}: no O_DIRECT here ({}): states there take memory of the page cache; to avoid that, name a folder on "
             "a disk",
             folder, why_not);
}

}  // namespace zero
