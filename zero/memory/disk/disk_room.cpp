#include "zero/memory/disk/disk_room.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>

#include "zero/base/error/check.h"
#include "zero/base/error/error.h"
#include "zero/memory/io/scratch_file.h"

namespace zero {

std::int64_t room_on(std::span<const std::string> folders, const FileCalls& calls) {
  ZERO_CHECK(!folders.empty(), "room in no folder");
  struct FileSystem {
    std::int64_t free_bytes = 0;
    std::int64_t num_folders = 0;
  };
  std::map<std::uint64_t, FileSystem> by_device;
  for (const std::string& folder : folders) {
    FileCalls::Room room;
    const int result = calls.find_room(folder, room);
    if (result == -ENOENT || result == -ENOTDIR || result == -EACCES || result == -ETIMEDOUT)
      throw refusal_of(folder, -result);
    if (result < 0) throw IoError(folder, "read the free space", -result);
    FileSystem& system = by_device[room.device];
    system.free_bytes = room.free_bytes;
    ++system.num_folders;
  }
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& [device, system] : by_device) least = std::min(least, system.free_bytes / system.num_folders);
  return least * static_cast<std::int64_t>(folders.size());
}

bool is_folder_here(const std::string& folder, const FileCalls& calls) {
  const int result = calls.try_folder(folder);
  return result != -ENOENT && result != -ENOTDIR;
}

}  // namespace zero
