#include "zero/base/text/bytes.h"

#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "zero/base/error/error.h"

namespace zero {
namespace {

struct Suffix {
  std::string_view name;
  double factor;
};

constexpr std::array kByteSuffixes{Suffix{"B", 1.0},
                                   Suffix{"kB", 1e3},
                                   Suffix{"KB", 1e3},
                                   Suffix{"MB", 1e6},
                                   Suffix{"GB", 1e9},
                                   Suffix{"TB", 1e12},
                                   Suffix{"KiB", 1024.0},
                                   Suffix{"MiB", 1048576.0},
                                   Suffix{"GiB", 1073741824.0},
                                   Suffix{"TiB", 1099511627776.0}};
constexpr std::array kTimeSuffixes{Suffix{"ms", 1.0}, Suffix{"s", 1e3}, Suffix{"min", 6e4}, Suffix{"h", 3.6e6}};

template <std::size_t N>
std::int64_t parse_scaled(std::string_view text, std::string_view key, const std::array<Suffix, N>& suffixes,
                          std::string_view example) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest = error == std::errc{} ? text.substr(static_cast<std::size_t>(end - text.data())) : text;
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  if (error == std::errc{} && std::isfinite(number) && number >= 0) {
    for (const auto& suffix : suffixes) {
      // Rounds instead of truncating: 1.001 * 1000 is a little less than 1001.
      if (rest == suffix.name && number * suffix.factor < 9.2e18) return std::llround(number * suffix.factor);
    }
  }
  throw ConfigError(key, text, "not a number with a unit", fmt::format("write for example {}", example));
}

}  // namespace

std::int64_t parse_bytes(std::string_view text, std::string_view key) {
  return parse_scaled(text, key, kByteSuffixes, "\"64MiB\" or \"1.5GB\"");
}

std::chrono::milliseconds parse_duration(std::string_view text, std::string_view key) {
  return std::chrono::milliseconds(parse_scaled(text, key, kTimeSuffixes, "\"60s\" or \"500ms\""));
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array kNames{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t index = 0;
  // The limits allow for rounding in print: 1023.7 KiB would read "1024 KiB".
  while (std::fabs(value) >= 1023.5 && index + 1 < kNames.size()) {
    value /= 1024;
    ++index;
  }
  const int decimals = std::fabs(value) >= 99.95 ? 0 : std::fabs(value) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, kNames[index]);
}

std::string format_count(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::ptrdiff_t first_digit = count < 0 ? 1 : 0;
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > first_digit; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

std::string format_count(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

// The limits allow for rounding in print: 59.97 s would read "60.0 s".
std::string format_seconds(double seconds) {
  const double size = std::fabs(seconds);
  if (size == 0) return "0 ms";
  if (size < 0.9995) {
    const double ms = 1e3 * seconds;
    return fmt::format("{:.{}f} ms", ms, size >= 0.00995 ? 0 : size >= 0.00005 ? 1 : 3);
  }
  const auto in = [](double value, const char* unit) {
    return fmt::format("{:.{}f} {}", value, std::fabs(value) >= 99.95 ? 0 : std::fabs(value) >= 9.995 ? 1 : 2, unit);
  };
  if (size < 59.95) return in(seconds, "s");
  if (size < 59.95 * 60) return in(seconds / 60, "min");
  return in(seconds / 3600, "h");
}

}  // namespace zero
