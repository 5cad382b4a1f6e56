// read_toml(): TOML text as a flat list of settings, each with its file and line. Only its .cpp sees the TOML library.
//
//   read_toml("config.toml")   {"train.batch", 6, "6", "config.toml:12"}, ...
//
// Errors: ConfigError for a file that is missing, unreadable, too large to be a configuration, or not TOML; a syntax
// error names file:line:column. This file does not know which names exist, or which values they take.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/value.h"

namespace zero {

constexpr std::size_t kMaxConfigBytes = 1 << 20;

// Local. `file` is only the name that messages use.
std::vector<Setting> parse_toml(std::string_view text, std::string_view file);
std::vector<Setting> read_toml(const std::filesystem::path& path);

}  // namespace zero
