// parse_bytes(), parse_duration(), format_seconds(): read and print byte sizes and durations.
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

// format_seconds(): prints a duration with three digits, in the unit that fits.
//
//   format_seconds(0.0124)    "12 ms"         format_seconds(1183.165)    "19.7 min"
//
// Units: ms below a second, s, min, h. Local.
std::string format_seconds(double seconds);

}  // namespace zero
