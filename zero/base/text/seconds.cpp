#include "zero/base/text/seconds.h"

#include <cmath>

#include <fmt/format.h>

namespace zero {

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
