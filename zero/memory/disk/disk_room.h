// room_on(): returns the free space of folders on disks, before any file is created there.
//
//   room_on(folders)                    // bytes of files of equal size, one in each folder
//   is_folder_here("/nvme0")            // false: it does not exist here, or is no folder
//
// Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "zero/memory/io/file_calls.h"

namespace zero {

// `folders`: at least one; folders on one file system share its free space. Throws ConfigError under "zero.disk" for a
// folder that is missing or not accessible to this user. Throws IoError if the system does not report the free space.
std::int64_t room_on(std::span<const std::string> folders, const FileCalls& calls = FileCalls::kernel());

// For plans, which may be for another machine. Other faults of an existing folder show when it is used.
bool is_folder_here(const std::string& folder, const FileCalls& calls = FileCalls::kernel());

}  // namespace zero
