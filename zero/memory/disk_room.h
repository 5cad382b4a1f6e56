// room_on(): free room of folders on disks, asked before any file is made there.
//
//   room_on(folders)                    // bytes of files of equal size, one in each folder
//   is_folder_here("/nvme0")            // false: nothing here is called so, or it is no folder
//
// Local.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "zero/memory/file_calls.h"

namespace zero {

// `folders`: at least one; those on one file system share its room. Throws ConfigError under "zero.disk" (a folder that
// is missing, or that this user may not look at), IoError where the system does not say how much is free.
std::int64_t room_on(std::span<const std::string> folders, const FileCalls& calls = FileCalls::kernel());

// For plans, which may be of another machine. What else is wrong with a folder that is here shows when it is used.
bool is_folder_here(const std::string& folder, const FileCalls& calls = FileCalls::kernel());

}  // namespace zero
