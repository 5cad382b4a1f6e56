// read_proc_file(): reads one of the kernel's small text files (/proc, /sys/fs/cgroup).
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

// Throws IoError if the file cannot be opened or read.
std::string read_proc_file(const std::string& path);

// Returns nothing if the file cannot be read: for files that some kernels do not have.
std::optional<std::string> try_read_proc_file(const std::string& path);

// Returns the bytes of the line "NAME:  N kB"; nothing if there is no such line.
std::optional<std::int64_t> field_kib(std::string_view text, std::string_view name);

}  // namespace zero
