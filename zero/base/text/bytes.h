// parse_bytes(), parse_duration(): read byte sizes and durations: "64MiB", "1.5GB", "500ms", "60s".
//
//   parse_bytes("1.5GiB") == 1610612736      format_bytes(1610612736) == "1.50 GiB"
//
// Units: B, kB/MB/GB/TB (powers of 1000), KiB/MiB/GiB/TiB (powers of 1024); ms, s, min, h. Spaces between number and
// unit are allowed. Case matters ("MB" is not "mb"), except that KB is read as kB. Fractions of a byte or millisecond
// are rounded. Both parsers throw ConfigError under the given key.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace zero {

std::int64_t parse_bytes(std::string_view text, std::string_view key);
std::chrono::milliseconds parse_duration(std::string_view text, std::string_view key);
std::string format_bytes(std::int64_t bytes);
std::string format_count(std::int64_t count);                         // 1234567 -> "1,234,567"
std::string format_count(std::int64_t count, std::string_view noun);  // 1, "rank" -> "1 rank"; 2, "rank" -> "2 ranks"

}  // namespace zero
