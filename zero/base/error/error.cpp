#include "zero/base/error/error.h"

#include <cstring>

#include <fmt/format.h>

namespace zero {

ConfigError::ConfigError(std::string_view key, std::string_view value, std::string_view reason, std::string_view remedy)
    : Error(fmt::format("{}{}{}: {}{}{}", key, value.empty() ? "" : " = ", value, reason, remedy.empty() ? "" : "\n  ",
                        remedy)),
      key_(key) {}

CommError::CommError(int rank, std::string_view operation, std::string_view reason)
    : Error(rank < 0 ? fmt::format("{}: {}", operation, reason)
                     : fmt::format("rank {}: {}: {}", rank, operation, reason)),
      rank_(rank) {}

IoError::IoError(std::string_view path, std::string_view operation, int error_number, std::string_view detail, int unit)
    : IoError(fmt::format("{}: {}{}{}{}{}", path, operation, error_number != 0 ? ": " : "",
                          error_number != 0 ? std::strerror(error_number) : "", detail.empty() ? "" : ": ", detail),
              error_number, unit) {}

IoError::IoError(const std::string& text, int error_number, int unit)
    : Error(text), error_number_(error_number), unit_(unit) {}

IoError IoError::within(std::string_view context) const {
  return {fmt::format("{}: {}", context, what()), error_number_, unit_};
}

}  // namespace zero
