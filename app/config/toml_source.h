// read_toml(): TOML text as a flat list of settings, each with its file and line. Only its .cpp sees the TOML library.
//
//   read_toml("config.toml")   {"train.batch", 6, "6", "config.toml:12"}, ...
//
// It does not know which keys exist, or which values are allowed.
//
// Local. Throws ConfigError if a file is missing, unreadable, larger than kMaxConfigBytes or not TOML. A syntax error
// names file:line:column.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "app/config/options/value.h"

namespace zero {

constexpr std::size_t kMaxConfigBytes = 1 << 20;

// Reads settings from a text. `file` is the name for messages.
std::vector<Setting> parse_toml(std::string_view text, std::string_view file);
std::vector<Setting> read_toml(const std::filesystem::path& path);

}  // namespace zero
