// read_proc_file(): one of the kernel's small text files (/proc, /sys/fs/cgroup), read whole.
//
//   field_kib(read_proc_file("/proc/self/status"), "VmRSS")     // "VmRSS:   5184 kB" -> 5308416 bytes
//
// Local.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zero {

// Throws IoError when it cannot be opened or read.
std::string read_proc_file(const std::string& path);

// Nothing when it cannot be read: for files that some kernels do not have.
std::optional<std::string> try_read_proc_file(const std::string& path);

// Bytes of the line "NAME:  N kB", or nothing when there is no such line.
std::optional<std::int64_t> field_kib(std::string_view text, std::string_view name);

}  // namespace zero
